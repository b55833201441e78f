/**
 * Keeps a lease alive, and says what becomes of it.
 *
 * 1. A renewal goes out at a third of the ttl, so two may fail before the lease ends.
 * 2. They go on until the server says that the elicitation is closed, or the hold that it is done: a server that was away gives every lease
 *    one full ttl again.
 * 3. None of this keeps the process alive: when it ends, the lease does.
 */
import type { Calls } from "./calls.js";
import { ElicitationExpiredError, ElicitationReleasedError, ElicitationUnknownError } from "./errors.js";
import type { Lease } from "./lease.js";
import type { Elicitation } from "./messages.js";
import { Backoff } from "./retry.js";
import { type Clock, systemClock } from "./stopwatch/clock.js";

/** How an elicitation ended that another caller closed, if that is what `error` says. */
export function endingOf(error: unknown): "expired" | "released" | "unknown" | undefined {
  if (error instanceof ElicitationExpiredError) return "expired";
  if (error instanceof ElicitationReleasedError) return "released";
  if (error instanceof ElicitationUnknownError) return "unknown";
  return undefined;
}

export class Renewal {
  readonly #calls: Calls;
  readonly #elicitation: Elicitation;
  readonly #ttlMs: number;
  readonly #tell: (lease: Lease) => void;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  readonly #failed: Backoff;
  #stopTimer: () => void = () => undefined;
  #stopOverdue: () => void = () => undefined;

  /** Begins to renew what was asked for at `openedAt`, by the clock. */
  constructor(
    calls: Calls,
    elicitation: Elicitation,
    ttlMs: number,
    openedAt: number,
    tell: (lease: Lease) => void,
    clock: Clock = systemClock,
  ) {
    this.#calls = calls;
    this.#elicitation = elicitation;
    this.#ttlMs = ttlMs;
    this.#tell = tell;
    this.#clock = clock;
    // A pause may become twice as long at random. After an outage the lease must be renewed before the server, which gives it
    // its full ttl again, ends it.
    this.#failed = new Backoff(Math.min(ttlMs / 30, 100), Math.min(ttlMs / 6, 2_000));
    this.#watchForTheEnd();
    this.#renewAt(openedAt + ttlMs / 3);
  }

  /** Says nothing any more. */
  stop(): void {
    this.renewNoMore();
    this.#stopOverdue();
  }

  /** From now on only says that the lease is over. */
  renewNoMore(): void {
    this.#stopTimer();
    this.#stopping.abort();
  }

  #renewAt(at: number): void {
    this.#stopTimer = this.#clock.timer(Math.max(at - this.#clock.now(), 0), () => void this.#renew());
  }

  async #renew(): Promise<void> {
    if (this.#calls.closing.aborted) return;
    const { elicitationId, threadId } = this.#elicitation;
    const { signal } = this.#stopping;
    const deadlineMs = Math.min(this.#calls.deadlineMs, this.#ttlMs / 3);
    const sent = this.#clock.now();
    try {
      await this.#calls.renew({ threadId, elicitationId, ttlMs: this.#ttlMs }, { deadlineMs, signal });
    } catch (error) {
      if (signal.aborted) return;
      const ending = endingOf(error);
      if (ending === undefined) {
        this.#renewAt(this.#clock.now() + this.#failed.next());
      } else {
        this.#stopOverdue();
        this.#tell(ending);
      }
      return;
    }
    if (signal.aborted) return;
    this.#failed.reset();
    this.#renewAt(sent + this.#ttlMs / 3);
    this.#watchForTheEnd();
    this.#tell("held");
  }

  /** The server counted from some moment before its answer came: not later than a ttl from now the lease is over. */
  #watchForTheEnd(): void {
    this.#stopOverdue();
    this.#stopOverdue = this.#clock.timer(this.#ttlMs, () => this.#tell("overdue"));
  }
}
