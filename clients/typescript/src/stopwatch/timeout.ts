/**
 * A timeout that stands still while its thread is paused.
 */
import { invalidField } from "../errors.js";
import { checkMs, checkThreadId } from "../fields.js";
import type { Clock } from "./clock.js";
import type { EndedBy } from "./ended-by.js";
import type { Follower } from "./follower.js";
import { Stopwatch } from "./stopwatch.js";

/** The options of a timeout. */
export interface TimeoutOptions {
  /** The thread whose pauses stop the clock. Default: the client's thread. */
  readonly threadId?: string | undefined;
  /**
   * The limit on wall time, in milliseconds: no pause extends it, and the coordinator is not asked before it ends the timeout. Default:
   * Infinity.
   */
  readonly maxWallMs?: number | undefined;
  /**
   * How long an unconfirmed pause counts after a disconnect, and how long a timeout that has run out waits for an unreachable coordinator, in
   * milliseconds. Default: 30 s.
   */
  readonly disconnectGraceMs?: number | undefined;
}

/** The reason of the signal of an expired timeout. Its name is `TimeoutError`, as with `AbortSignal.timeout`. */
export class PausableTimeoutError extends DOMException {
  /** The limit that ended the timeout: `"limit"` on unpaused time, or `"maxWall"` on wall time. */
  readonly endedBy: EndedBy;

  /** @internal */
  constructor(endedBy: EndedBy) {
    super("The operation was aborted due to timeout", "TimeoutError");
    this.endedBy = endedBy;
  }
}

/**
 * A limit on the time that a command of a thread may take. It does not count the time in which the thread is paused, and its own pauses; time
 * in which both are paused is subtracted once. Made by `Client.startTimeout`. It runs from its creation.
 *
 * While the coordinator is connected, the time is exact to 5 ms. After a disconnect it continues with the last known state; a pause that began
 * or ended meanwhile is credited after the reconnect.
 *
 * Like `AbortSignal.timeout`, it does not keep the process alive. Dispose of it when the command is done: until then, or until it expires, it
 * uses a little memory and its thread is watched.
 */
export class PausableTimeout implements Disposable {
  readonly #stopwatch: Stopwatch;
  readonly #limitMs: number;
  readonly #threadId: string;
  readonly #follower: Follower;
  /** The functions that end the following of its own thread, and of each one that it awaits. */
  readonly #leaves = new Map<string, () => void>();
  readonly #abort = new AbortController();
  #done = false;

  /** @internal */
  constructor(limitMs: number, maxWallMs: number, threadId: string, follower: () => Follower, clock: Clock) {
    checkMs("ms", limitMs);
    checkMs("maxWallMs", maxWallMs);
    this.#limitMs = limitMs;
    this.#threadId = threadId;
    this.#follower = follower();
    const { thread, leave } = this.#follower.enter(threadId);
    this.#leaves.set(threadId, leave);
    this.#stopwatch = new Stopwatch(limitMs, maxWallMs, thread, clock, () => this.#expire());
    this.#stopwatch.start();
  }

  /**
   * Aborted when the timeout expires. Its reason is a {@link PausableTimeoutError}, which is a `DOMException` named `TimeoutError`, as with
   * `AbortSignal.timeout`.
   */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Whether it has expired. An expired timeout stays expired. */
  get expired(): boolean {
    return this.#stopwatch.expired;
  }

  /** Which limit ended it; `undefined`: it is running, or was disposed of. */
  get endedBy(): EndedBy | undefined {
    return this.#stopwatch.endedBy;
  }

  /** Whether it stands still: because of a pause of its own, of its thread or of one that it awaits, or because it was disposed of. */
  get paused(): boolean {
    return this.#stopwatch.paused;
  }

  /** Whether the states of its thread, and of those that it awaits, are known, and the connection is up. */
  get linked(): boolean {
    return this.#stopwatch.linked;
  }

  /**
   * The unpaused time so far, in milliseconds. Never decreases: if a pause becomes known only after a reconnect, the value stands still until
   * that time is made up for. After the expiry it does not change.
   */
  get elapsedMs(): number {
    return this.#stopwatch.elapsedMs;
  }

  /**
   * The limit less {@link elapsedMs}, at least 0. Zero does not mean expired, since the coordinator may have to confirm first: use
   * {@link expired} or {@link signal}.
   */
  get remainingMs(): number {
    return Math.max(this.#limitMs - this.elapsedMs, 0);
  }

  /** Pauses it until the returned object is disposed of. Pauses nest: it continues when the last one ends. */
  pause(): Disposable {
    this.#stopwatch.pause();
    let ended = false;
    return {
      [Symbol.dispose]: () => {
        if (!ended) this.#stopwatch.resume();
        ended = true;
      },
    };
  }

  /**
   * Makes it stand still also while that thread is paused, until the returned object is disposed of: for work that waits for a sub-agent. Time
   * in which several threads are paused counts once. The same thread may be awaited several times: it counts until the last of these waits
   * ends. Threads that are awaited by that thread do not count.
   *
   * @throws {InvalidFieldError} The id is not valid, or is the timeout's own thread.
   */
  awaitThread(threadId: string): Disposable {
    checkThreadId(threadId);
    if (threadId === this.#threadId) {
      throw invalidField("thread_id", `thread_id is "${threadId}", the timeout's own thread; allowed: another thread`);
    }
    if (!this.#done) {
      this.#stopwatch.awaitThread(threadId, () => {
        const { thread, leave } = this.#follower.enter(threadId);
        this.#leaves.set(threadId, leave);
        return thread;
      });
    }
    let ended = false;
    return {
      [Symbol.dispose]: () => {
        if (!ended && !this.#done && this.#stopwatch.unawaitThread(threadId)) {
          this.#leaves.get(threadId)?.();
          this.#leaves.delete(threadId);
        }
        ended = true;
      },
    };
  }

  /** Pauses it while `work` runs, however `work` ends, and returns the result of `work`. */
  async pauseFor<T>(work: () => Promise<T> | T): Promise<T> {
    const pause = this.pause();
    try {
      return await work();
    } finally {
      pause[Symbol.dispose]();
    }
  }

  /** Stops it: the signal will not be aborted any more, and its times do not change any more. */
  [Symbol.dispose](): void {
    this.#stopwatch.stop();
    this.#end();
  }

  #expire(): void {
    this.#end();
    this.#abort.abort(new PausableTimeoutError(this.endedBy ?? "limit"));
  }

  #end(): void {
    this.#done = true;
    this.#stopwatch.close();
    for (const leave of this.#leaves.values()) leave();
    this.#leaves.clear();
  }
}
