/**
 * Keeps a lease alive, and says what becomes of it.
 *
 * 1. A renewal goes out at a third of the ttl, so two may fail before the lease ends.
 * 2. They go on until the server says that the elicitation is closed, or the hold that it is done: a server that was away gives every lease
 *    one full ttl again.
 * 3. None of this keeps the process alive: when it ends, the lease does.
 */
import { performance } from "node:perf_hooks";
import type { Calls } from "./calls.js";
import { ElicitationExpiredError, ElicitationReleasedError, ElicitationUnknownError } from "./errors.js";
import type { Elicitation } from "./messages.js";
import { Backoff, pauseFor } from "./retry.js";

/** What is known of the lease of a hold. */
export type Lease =
  /** The elicitation is open. */
  | "held"
  /**
   * No renewal got through for a whole ttl: the lease is over, or its server is down. Renewals are still tried; if one succeeds, the lease is
   * `held` again.
   */
  | "overdue"
  /** The lease ended: the elicitation is closed, and its thread runs unless another one is open. */
  | "expired"
  /** The elicitation was closed by a decrement. */
  | "released"
  /** The server does not know the elicitation: it lost its state, or has long forgotten it. */
  | "unknown";

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
  readonly #stopping = new AbortController();
  #overdue: NodeJS.Timeout | undefined;

  /** Begins to renew what was asked for at `openedAt`, by `performance.now()`. */
  constructor(calls: Calls, elicitation: Elicitation, ttlMs: number, openedAt: number, tell: (lease: Lease) => void) {
    this.#calls = calls;
    this.#elicitation = elicitation;
    this.#ttlMs = ttlMs;
    this.#tell = tell;
    void this.#run(openedAt);
  }

  /** Says nothing any more. */
  stop(): void {
    this.renewNoMore();
    clearTimeout(this.#overdue);
  }

  /** From now on only says that the lease is over. */
  renewNoMore(): void {
    this.#stopping.abort();
  }

  async #run(openedAt: number): Promise<void> {
    const { elicitationId, threadId } = this.#elicitation;
    const request = { threadId, elicitationId, ttlMs: this.#ttlMs };
    const deadlineMs = Math.min(this.#calls.deadlineMs, this.#ttlMs / 3);
    const stop = this.#stopping.signal;
    const failed = new Backoff(Math.min(this.#ttlMs / 30, 100), 2_000);
    let next = openedAt + this.#ttlMs / 3;
    this.#watchForTheEnd();
    for (;;) {
      await pauseFor(Math.max(next - performance.now(), 0), false, stop, this.#calls.closing);
      if (stop.aborted || this.#calls.closing.aborted) return;
      const sent = performance.now();
      try {
        await this.#calls.renew(request, { deadlineMs, signal: stop });
      } catch (error) {
        if (stop.aborted) return;
        const ending = endingOf(error);
        if (ending !== undefined) {
          clearTimeout(this.#overdue);
          return this.#tell(ending);
        }
        next = performance.now() + failed.next();
        continue;
      }
      if (stop.aborted) return;
      failed.reset();
      next = sent + this.#ttlMs / 3;
      this.#watchForTheEnd();
      this.#tell("held");
    }
  }

  /** The server counted from some moment before its answer came: not later than a ttl from now the lease is over. */
  #watchForTheEnd(): void {
    clearTimeout(this.#overdue);
    this.#overdue = setTimeout(() => this.#tell("overdue"), this.#ttlMs).unref();
  }
}
