/**
 * Renews a lease, and reports its state.
 *
 * 1. A renewal is sent after each third of the ttl, so two may fail before the lease ends.
 * 2. Renewals continue until the server reports that the elicitation is closed, or the hold stops them: a server that was unreachable gives
 *    every lease one full ttl after its restart.
 * 3. Renewals do not keep the process alive: the lease ends after the process.
 * 4. When the client has ended, the lease is overdue: nothing renews it, and its end cannot be known.
 */
import { onAbort } from "./abort.js";
import type { Calls } from "./calls.js";
import { ElicitationExpiredError, ElicitationReleasedError, ElicitationUnknownError } from "./errors.js";
import type { Lease } from "./lease.js";
import type { Elicitation } from "./messages.js";
import { Backoff } from "./retry.js";
import { type Clock, systemClock } from "./stopwatch/clock.js";

/** How the elicitation ended, if `error` says that it is closed; else `undefined`. */
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
  readonly #onLease: (lease: Lease) => void;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  readonly #retryDelays: Backoff;
  #stopTimer: () => void = () => undefined;
  #stopOverdue: () => void = () => undefined;
  #stopListening: () => void = () => undefined;

  /** Starts the renewals of an elicitation whose increment was sent at `openedAt`, by the clock. `onLease` receives the states of the lease. */
  constructor(
    calls: Calls,
    elicitation: Elicitation,
    ttlMs: number,
    openedAt: number,
    onLease: (lease: Lease) => void,
    clock: Clock = systemClock,
  ) {
    this.#calls = calls;
    this.#elicitation = elicitation;
    this.#ttlMs = ttlMs;
    this.#onLease = onLease;
    this.#clock = clock;
    // A retry delay may be doubled at random. After an outage, the server gives the lease its full ttl again, within which it must be renewed.
    this.#retryDelays = new Backoff(Math.min(ttlMs / 30, 100), Math.min(ttlMs / 6, 2_000));
    this.#scheduleOverdue();
    this.#renewAt(openedAt + ttlMs / 3);
    this.#stopListening = onAbort([calls.closing], () => {
      this.stop();
      this.#onLease("overdue");
    });
  }

  /** Stops the renewals. Nothing is reported any more. */
  stop(): void {
    this.stopRenewing();
    this.#stopReporting();
  }

  #stopReporting(): void {
    this.#stopOverdue();
    this.#stopListening();
  }

  /** Stops the renewals. Only the end of the lease is still reported. */
  stopRenewing(): void {
    this.#stopTimer();
    this.#stopping.abort();
  }

  #renewAt(at: number): void {
    this.#stopTimer = this.#clock.timer(Math.max(at - this.#clock.now(), 0), () => void this.#renew());
  }

  async #renew(): Promise<void> {
    const { elicitationId, threadId } = this.#elicitation;
    const { signal } = this.#stopping;
    const deadlineMs = Math.min(this.#calls.deadlineMs, this.#ttlMs / 3);
    const sent = this.#clock.now();
    try {
      await this.#calls.renew({ threadId, elicitationId }, { deadlineMs, signal });
    } catch (error) {
      if (signal.aborted) return;
      const ending = endingOf(error);
      if (ending === undefined) {
        this.#renewAt(this.#clock.now() + this.#retryDelays.next());
      } else {
        this.#stopReporting();
        this.#onLease(ending);
      }
      return;
    }
    if (signal.aborted) return;
    this.#retryDelays.reset();
    this.#renewAt(sent + this.#ttlMs / 3);
    this.#scheduleOverdue();
    this.#onLease("held");
  }

  /** The server starts a lease before its answer arrives, so the lease is over at the latest one ttl from now. */
  #scheduleOverdue(): void {
    this.#stopOverdue();
    this.#stopOverdue = this.#clock.timer(this.#ttlMs, () => this.#onLease("overdue"));
  }
}
