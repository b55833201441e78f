/**
 * A timeout that stands still while its thread is paused.
 */
import { invalidField } from "../errors.js";
import { checkThreadId } from "../fields.js";
import type { Clock } from "./clock.js";
import type { EndedBy } from "./ended-by.js";
import type { Follower } from "./follower.js";
import { Stopwatch } from "./stopwatch.js";

/** What a timeout follows, and how patiently. */
export interface TimeoutOptions {
  /** The thread whose pauses stop the clock. Default: the client's. */
  readonly threadId?: string | undefined;
  /**
   * When it expires at the latest, in milliseconds of wall time: no pause extends that, and the coordinator is not asked. Default: Infinity.
   */
  readonly maxWallMs?: number | undefined;
  /**
   * Cut off from the coordinator, a pause counts for so long, and a timeout that runs out waits at most so long for the link. Default: 30 s.
   */
  readonly disconnectGraceMs?: number | undefined;
}

/** Why the signal of a timeout is aborted. It is named `TimeoutError`, as that of `AbortSignal.timeout` is. */
export class PausableTimeoutError extends DOMException {
  /** Which limit it was: `"limit"` on unpaused time, or `"maxWall"` on wall time. */
  readonly endedBy: EndedBy;

  /** @internal */
  constructor(endedBy: EndedBy) {
    super("The operation was aborted due to timeout", "TimeoutError");
    this.endedBy = endedBy;
  }
}

/**
 * A limit on the time that a command of a thread may take, less the time that the thread is paused, less its own pauses (a moment that is
 * both counts once). Made by `Client.startTimeout`. It runs from its creation.
 *
 * While the coordinator is heard, that is exact to 5 ms. Cut off, it goes on with the last state; a pause that began or ended meanwhile is
 * credited when the link is back.
 *
 * Like `AbortSignal.timeout`, it does not keep the process alive. Dispose of it when the command is done: until then, or until it expires, it
 * takes a little memory and its thread is watched.
 */
export class PausableTimeout implements Disposable {
  readonly #stopwatch: Stopwatch;
  readonly #limitMs: number;
  readonly #threadId: string;
  readonly #follower: Follower;
  /** What ends the following of its own thread, and of each one that it awaits. */
  readonly #leaves = new Map<string, () => void>();
  readonly #abort = new AbortController();
  #done = false;

  /** @internal */
  constructor(
    limitMs: number,
    maxWallMs: number,
    threadId: string | undefined,
    follower: () => Follower,
    clock: Clock,
  ) {
    // Also what is no number at all.
    if (!(limitMs >= 0)) throw new RangeError(`a timeout of ${limitMs} ms; allowed: 0 and more`);
    if (!(maxWallMs >= 0)) throw new RangeError(`a maxWallMs of ${maxWallMs} ms; allowed: 0 and more`);
    if (threadId === undefined) {
      throw invalidField(
        "thread_id",
        "thread_id is not given, neither here nor as PAUSEWATCH_THREAD_ID; allowed: 1 to 256 bytes",
      );
    }
    this.#limitMs = limitMs;
    this.#stopwatch = new Stopwatch(limitMs, maxWallMs, clock, () => this.#expire());
    this.#threadId = threadId;
    this.#follower = follower();
    const { thread, leave } = this.#follower.enter(threadId);
    this.#leaves.set(threadId, leave);
    this.#stopwatch.follow(thread);
  }

  /**
   * Aborted when the time is out, with such a reason as `AbortSignal.timeout` gives: a {@link PausableTimeoutError}, which is a `DOMException`
   * named `TimeoutError`.
   */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Whether the time is out. Once expired it is expired for ever. */
  get expired(): boolean {
    return this.#stopwatch.expired;
  }

  /** Which limit ended it; `undefined`: it runs, or was disposed of. */
  get endedBy(): EndedBy | undefined {
    return this.#stopwatch.endedBy;
  }

  /** Whether it stands still: by a pause of its own, of its thread or of one that it awaits, or because it was disposed of. */
  get paused(): boolean {
    return this.#stopwatch.paused;
  }

  /** Whether the state of its thread, and of those that it awaits, is known, and the coordinator is heard. */
  get linked(): boolean {
    return this.#stopwatch.linked;
  }

  /**
   * The unpaused time so far. Never goes backwards: where a pause is learnt of only after a lost connection, it stands still until that time
   * is made up for.
   */
  get elapsedMs(): number {
    return this.#stopwatch.elapsedMs;
  }

  /**
   * The limit less {@link elapsedMs}, at least 0. That is 0 does not mean expired: the coordinator may have to be asked first; {@link expired}
   * and {@link signal} decide.
   */
  get remainingMs(): number {
    return Math.max(this.#limitMs - this.elapsedMs, 0);
  }

  /** Pauses until what is returned is disposed of. Pauses nest: it runs again when the last one ends. */
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
   * Stands still while that thread is paused too, until what is returned is disposed of: for work that waits for a sub-agent. A moment in which
   * several threads are paused counts once. The same thread may be awaited several times: it counts until the last of these waits ends. Threads
   * that it awaits itself do not count.
   *
   * @throws {InvalidFieldError} No thread can have this id, or it is the timeout's own.
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

  /** Pauses while `work` runs, however that ends. */
  async pauseFor<T>(work: () => Promise<T> | T): Promise<T> {
    const pause = this.pause();
    try {
      return await work();
    } finally {
      pause[Symbol.dispose]();
    }
  }

  /** Ends it before its time: the signal will not be aborted any more, and the times stay as they are. */
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
