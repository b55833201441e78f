/**
 * Which stopwatch follows which thread; and from the stream to the threads' clocks.
 *
 * 1. One stream follows all threads of a follower.
 * 2. A thread is followed for `LINGER_MS` after its last stopwatch left: the next command of the thread starts with exact knowledge and costs
 *    the coordinator nothing.
 * 3. A follower that has no thread any more says so, and is not used again: its stream is closed.
 */
import { checkThreadId } from "../fields.js";
import type { PauseState } from "../messages.js";
import type { Listener, WatchStream } from "../watch/stream.js";
import type { Clock } from "./clock.js";
import type { Stopwatch } from "./stopwatch.js";
import { type Coordinator, ThreadClock } from "./thread.js";

/** How long a thread without stopwatches is still followed. */
const LINGER_MS = 30_000;

/** The part of a stream that a follower needs. */
export type Stream = Pick<
  WatchStream,
  "start" | "close" | "isOpen" | "add" | "remove" | "watches" | keyof Omit<Coordinator, "graceMs">
>;

interface Followed {
  readonly thread: ThreadClock;
  stopwatches: number;
  /** Ends the wait for the end of its lingering. */
  stayOn: (() => void) | undefined;
}

export class Follower {
  readonly #stream: Stream;
  readonly #coordinator: Coordinator;
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  readonly #threads = new Map<string, Followed>();

  /** `open`: makes the stream; `onIdle`: called when the last thread is not followed any more. */
  constructor(open: (listener: Listener) => Stream, graceMs: number, clock: Clock, onIdle: () => void) {
    const stream = open({
      threadIds: () => this.#threads.keys(),
      state: (state) => this.#threads.get(state.threadId)?.thread.apply(state),
      confirmed: (states, sentAt) => this.#confirm(states, sentAt),
      complete: () => undefined,
      // A thread that may not be watched was not heard before either: its grace decides.
      refused: () => undefined,
      broken: (_, silentForMs) => {
        for (const { thread } of this.#threads.values()) thread.disconnect(silentForMs);
      },
      room: () => undefined,
    });
    this.#stream = stream;
    this.#coordinator = {
      graceMs,
      get isOpen() {
        return stream.isOpen;
      },
      confirm: (threadId, since) => stream.confirm(threadId, since),
      forget: (threadId) => stream.forget(threadId),
      sentAt: (threadId) => stream.sentAt(threadId),
    };
    this.#clock = clock;
    this.#onIdle = onIdle;
    stream.start();
  }

  /**
   * Lets `stopwatch` follow a thread. If that is paused, it starts paused. Returns the thread, and what ends the following.
   *
   * @throws {InvalidFieldError} No thread can have this id.
   */
  register(threadId: string, stopwatch: Stopwatch): { thread: ThreadClock; leave: () => void } {
    const entered = this.enter(threadId);
    stopwatch.follow(entered.thread);
    return entered;
  }

  /**
   * Follows a thread for a stopwatch that does it itself. Returns the thread, and what ends the following.
   *
   * @throws {InvalidFieldError} No thread can have this id.
   */
  enter(threadId: string): { thread: ThreadClock; leave: () => void } {
    const followed = this.#enter(threadId);
    return { thread: followed.thread, leave: () => this.#leave(followed) };
  }

  #enter(threadId: string): Followed {
    let followed = this.#threads.get(threadId);
    if (followed === undefined) {
      checkThreadId(threadId);
      const thread = new ThreadClock(threadId, this.#coordinator, this.#clock);
      followed = { thread, stopwatches: 0, stayOn: undefined };
      this.#threads.set(threadId, followed);
      this.#stream.add(threadId);
    }
    followed.stayOn?.();
    followed.stayOn = undefined;
    followed.stopwatches++;
    return followed;
  }

  #leave(followed: Followed): void {
    followed.stopwatches--;
    if (followed.stopwatches > 0) return;
    const { threadId } = followed.thread;
    followed.stayOn = this.#clock.timer(LINGER_MS, () => {
      this.#threads.delete(threadId);
      this.#stream.remove(threadId);
      if (this.#threads.size > 0) return;
      this.#stream.close();
      this.#onIdle();
    });
  }

  #confirm(states: readonly PauseState[], sentAt: number): void {
    for (const state of states) {
      const { threadId } = state;
      this.#threads.get(threadId)?.thread.confirm(state, sentAt, this.#stream.watches(threadId));
    }
  }
}
