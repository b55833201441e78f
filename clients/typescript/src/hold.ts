/**
 * An elicitation that a program keeps open: renewed while it is held, closed when it is released or its block ends.
 *
 * 1. Neither the caller's signal nor the end of the client aborts the increment: an elicitation that is opened after that is closed again.
 * 2. All decrements of one hold have the same request id: however often a release is tried, it counts once and returns the first answer (G4).
 * 3. Every failure here is bounded by the lease (G2).
 * 4. The end of an `await using` block cannot know whether the block threw, and an error of its own would replace the error of the block. So
 *    it throws nothing. To get an error, call `complete()` as the last statement of the block, or use `Client.withHold`.
 */
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { performance } from "node:perf_hooks";
import { onAbort } from "./abort.js";
import type { CallOptions } from "./call-options.js";
import type { Calls } from "./calls.js";
import {
  type CallError,
  type ElicitationExpiredError,
  type ElicitationReleasedError,
  type ElicitationUnknownError,
  PausewatchError,
} from "./errors.js";
import type { Lease } from "./lease.js";
import type { Elicitation, IncrementResponse } from "./messages.js";
import { endingOf, Renewal } from "./renewal.js";

/**
 * Long enough to survive two lost renewals and a restart of the server, short enough that the thread resumes soon after a crash of the holder.
 */
const DEFAULT_TTL_MS = 30_000;

/** The options of a hold. */
export interface HoldOptions extends CallOptions {
  /** The question to the person, shown in lists and logs: up to 1,024 bytes. Default: empty. */
  readonly reason?: string;
  /** Who asks: up to 256 bytes. Default: this program's name and process id, `name[1234]`. */
  readonly holder?: string;
  /**
   * The lease in milliseconds, 1 s to 24 h: if the holder dies, the elicitation ends with it. It is renewed after each third of the ttl.
   * Default: 30 s.
   */
  readonly ttlMs?: number;
  /**
   * If the thread cannot be paused (no thread is named, no coordinator runs, …), a warning is logged and the program continues without a
   * pause, as with `pausewatch hold` without `--require`: see {@link Hold.failure}. A field out of its limits is an error in any case.
   * Default: false.
   */
  readonly bestEffort?: boolean;
}

/** The result of a release: how the elicitation ended. */
export type Release =
  /** The elicitation was open until this release closed it; `count` open ones remain on the thread. */
  | { readonly ending: "closed"; readonly count: number; readonly revision: bigint }
  /** Its lease had already ended: the answer came too late, and commands of the thread may have timed out. */
  | { readonly ending: "expired"; readonly error: ElicitationExpiredError }
  /** A decrement of another caller had already closed it. */
  | { readonly ending: "released"; readonly error: ElicitationReleasedError }
  /** The server does not know the elicitation: it lost its state, or forgot the elicitation after some time. */
  | { readonly ending: "unknown"; readonly error: ElicitationUnknownError }
  /** There was nothing to release: a best-effort hold that could not be opened. */
  | { readonly ending: "notOpen"; readonly error: CallError };

/**
 * The two lanes of the calls of holds, which continue after the client is closed until its releases are done.
 *
 * @internal
 */
export interface Lanes {
  readonly foreground: Calls;
  readonly background: Calls;
}

/**
 * An open elicitation, which pauses its thread. Made by `Client.hold`.
 *
 * It is renewed in the background until it is released. It does not keep the process alive: if the process ends first, the lease ends the
 * elicitation.
 */
export class Hold implements AsyncDisposable {
  /**
   * Why a best-effort hold could not be opened. `undefined`: it was opened. If it is `transient`, the thread may be paused until the lease ends:
   * perhaps only the answer was lost.
   */
  readonly failure: CallError | undefined;
  readonly #opened: IncrementResponse | undefined;
  readonly #lanes: Lanes;
  readonly #ttlMs: number;
  readonly #decrementId = randomUUID();
  readonly #renewal: Renewal | undefined;
  #lease: Lease = "held";
  #waiters: ((lease: Lease) => void)[] = [];
  #release: Promise<Release> | undefined;
  #released: Release | undefined;

  private constructor(lanes: Lanes, opening: IncrementResponse | CallError, ttlMs: number, openedAt: number) {
    this.#lanes = lanes;
    this.#ttlMs = ttlMs;
    if (opening instanceof PausewatchError) {
      this.failure = opening;
      this.#lease = "notOpen";
      this.#released = { ending: "notOpen", error: opening };
      this.#release = Promise.resolve(this.#released);
    } else {
      this.#opened = opening;
      const { elicitation } = opening;
      this.#renewal = new Renewal(lanes.background, elicitation, ttlMs, openedAt, (lease) => this.#onLease(lease));
    }
  }

  /** @internal A best-effort hold that could not be opened. */
  static notOpen(lanes: Lanes, failure: CallError): Hold {
    return new Hold(lanes, failure, DEFAULT_TTL_MS, 0);
  }

  /**
   * The elicitation as it was opened.
   *
   * @throws {PausewatchError} A best-effort hold could not be opened: see {@link failure}.
   */
  get elicitation(): Elicitation {
    return this.opened.elicitation;
  }

  /**
   * The result of the increment.
   *
   * @throws {PausewatchError} A best-effort hold could not be opened: see {@link failure}.
   */
  get opened(): IncrementResponse {
    if (this.#opened !== undefined) return this.#opened;
    throw new PausewatchError(`this best-effort hold could not be opened: ${this.failure?.message}`);
  }

  /** @internal See `Client.hold`. */
  static async open(lanes: Lanes, threadId: string, options: HoldOptions): Promise<Hold> {
    const { channel } = lanes.foreground;
    options.signal?.throwIfAborted();
    channel.closing.throwIfAborted();
    const opening = Hold.#increment(lanes, threadId, options);
    return new Promise((resolve, reject) => {
      const keep = onAbort([options.signal, channel.closing], (reason) => {
        reject(reason);
        channel.releasing(opening.then((hold) => hold[Symbol.asyncDispose]()));
      });
      // Before the caller has the hold: from then on the signals must not close the hold.
      opening.finally(keep).then(resolve, reject);
    });
  }

  static async #increment(lanes: Lanes, threadId: string, options: HoldOptions): Promise<Hold> {
    const { reason = "", holder = thisProgram(), ttlMs = DEFAULT_TTL_MS, deadlineMs } = options;
    const sent = performance.now();
    const limits = deadlineMs === undefined ? {} : { deadlineMs };
    const opened = await lanes.foreground.increment({ threadId, reason, holder, ttlMs }, limits);
    return new Hold(lanes, opened, ttlMs, sent);
  }

  /** The present state of the lease, as far as it is known. */
  get lease(): Lease {
    return this.#lease;
  }

  /** The result of the release; `undefined` before. */
  get released(): Release | undefined {
    return this.#released;
  }

  /**
   * Waits until the lease is not `held` any more, and returns its state. An `overdue` lease may be held again later; see {@link lease}. Waiting
   * does not keep the process alive.
   *
   * @throws The reason of `options.signal`, if it is aborted.
   */
  async lost(options: { readonly signal?: AbortSignal } = {}): Promise<Lease> {
    const { signal } = options;
    signal?.throwIfAborted();
    if (this.#lease !== "held") return this.#lease;
    return new Promise((resolve, reject) => {
      const stopListening = onAbort([signal], (reason) => {
        this.#waiters = this.#waiters.filter((waiting) => waiting !== waiter);
        reject(reason);
      });
      const waiter = (lease: Lease) => {
        stopListening();
        resolve(lease);
      };
      this.#waiters.push(waiter);
    });
  }

  /**
   * Closes the elicitation, and returns whether it was open until now. Calling it again returns the same result.
   *
   * @throws {StoreUnavailableError | UnavailableError | DeadlineExceededError | CallError} It may still be open, and is still renewed. Call
   * again, or leave the block: then the release is retried in the background until the lease has ended.
   */
  release(): Promise<Release> {
    this.#release ??= this.#decrement(this.#lanes.foreground).catch((error: unknown) => {
      this.#release = undefined;
      throw error;
    });
    return this.#release;
  }

  /**
   * Releases, and throws if the answer came too late. Call it as the last statement of an `await using` block.
   *
   * @throws {ElicitationExpiredError} The lease had already ended.
   * @throws The errors of {@link release}.
   */
  async complete(): Promise<Release> {
    const release = await this.release();
    if (release.ending === "expired") throw release.error;
    return release;
  }

  /**
   * Releases at the end of an `await using` block. It never throws, so that the error of the block is not replaced. If the lease has already
   * ended, or the release fails, it logs a warning; a failed release is retried in the background until the lease has ended.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#released !== undefined) return;
    try {
      const { ending } = await this.release();
      if (ending === "expired") this.#warn("its lease had ended before it was released: the answer came too late");
    } catch (error) {
      this.#warn(`not released yet, its lease bounds it: ${error instanceof Error ? error.message : error}`);
      this.releaseInBackground();
    }
  }

  /** Retries the release until the lease has ended. Does not wait, and does not keep the process alive. @internal */
  releaseInBackground(): void {
    if (this.#renewal === undefined) return;
    this.#renewal.stopRenewing();
    // The retries of the client bound how long a caller waits; nobody waits here.
    const retries = Number.POSITIVE_INFINITY;
    this.#decrement(this.#lanes.background, { deadlineMs: this.#ttlMs }, retries).catch(() => undefined);
  }

  #decrement(calls: Calls, options?: CallOptions, retries?: number): Promise<Release> {
    const release = this.#tryToDecrement(calls, options, retries);
    this.#lanes.foreground.channel.releasing(release);
    return release;
  }

  async #tryToDecrement(calls: Calls, options?: CallOptions, retries?: number): Promise<Release> {
    const { threadId, elicitationId } = this.elicitation;
    const request = { threadId, elicitationId, requestId: this.#decrementId };
    const release = await calls.decrement(request, options, retries).then(
      ({ count, revision }): Release => ({ ending: "closed", count, revision }),
      (error: unknown): Release => {
        const ending = endingOf(error);
        if (ending === undefined) throw error;
        return { ending, error } as Release;
      },
    );
    this.#renewal?.stop();
    this.#released = release;
    this.#onLease(release.ending === "closed" ? "released" : release.ending);
    return release;
  }

  #onLease(lease: Lease): void {
    this.#lease = lease;
    if (lease === "held") return;
    for (const waiter of this.#waiters.splice(0)) waiter(lease);
  }

  #warn(text: string): void {
    const { threadId, elicitationId } = this.elicitation;
    this.#lanes.foreground.channel.log.warn(`hold ${elicitationId} of thread ${threadId}: ${text}`, "PAUSEWATCH_HOLD");
  }
}

function thisProgram(): string {
  // Always less than the allowed 256 bytes, cut between two characters.
  const name = [...basename(process.argv[1] ?? process.title).toWellFormed()]
    .filter((c) => !/\p{Cc}/u.test(c))
    .slice(0, 50);
  return `${name.join("")}[${process.pid}]`;
}
