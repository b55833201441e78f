/**
 * Which stopwatch follows which thread; and from the stream to the threads' clocks.
 *
 * 1. One stream follows all threads of a follower.
 * 2. A thread is followed for `LINGER_MS` after its last stopwatch left: the next command of the thread starts with exact knowledge and costs
 *    the coordinator nothing.
 * 3. Its stopwatches outlive its client: closed, it stops none of them, and their threads count as running.
 * 4. A follower that has no thread any more says so, and is not used again: its stream is closed.
 */
import { checkThreadId } from "../fields.js";
import type { PauseState } from "../messages.js";
import type { Listener, WatchStream } from "../watch/stream.js";
import type { Clock } from "./clock.js";
import type { LinkListener } from "./link.js";
import { type Coordinator, ThreadClock } from "./thread.js";

/** How long a thread without stopwatches is still followed. */
const LINGER_MS = 30_000;

/** The part of a stream that a follower needs. */
export type Stream = Coordinator & Pick<WatchStream, "start" | "close" | "add" | "remove" | "watches">;

interface Followed {
  readonly thread: ThreadClock;
  stopwatches: number;
  /** Ends the wait for the end of its lingering. */
  stayOn: (() => void) | undefined;
}

export class Follower {
  readonly #stream: Stream;
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  readonly #link: LinkListener;
  readonly #threads = new Map<string, Followed>();
  #closed = false;

  /** `open`: makes the stream; `onIdle`: called when the last thread is not followed any more. */
  constructor(
    open: (listener: Listener) => Stream,
    graceMs: number,
    clock: Clock,
    onIdle: () => void,
    link: LinkListener,
  ) {
    this.#link = link;
    this.#stream = open({
      threadIds: () => this.#threads.keys(),
      state: (state) => this.#threads.get(state.threadId)?.thread.apply(state),
      confirmed: (states, sentAt) => this.#confirm(states, sentAt),
      complete: () => this.#link.connected(),
      // A thread that may not be watched was not heard before either: its grace decides.
      refused: () => undefined,
      broken: (error, silentForMs) => {
        this.#link.disconnected(error, silentForMs);
        for (const { thread } of this.#threads.values()) thread.disconnect(silentForMs);
      },
      room: () => undefined,
    });
    this.#graceMs = graceMs;
    this.#clock = clock;
    this.#onIdle = onIdle;
    this.#stream.start();
  }

  /**
   * Follows a thread. Returns it, and what ends the following.
   *
   * @throws {InvalidFieldError} No thread can have this id.
   */
  enter(threadId: string): { thread: ThreadClock; leave: () => void } {
    const followed = this.#threads.get(threadId) ?? this.#add(threadId);
    followed.stayOn?.();
    followed.stayOn = undefined;
    followed.stopwatches++;
    return { thread: followed.thread, leave: () => this.#leave(followed) };
  }

  /** Asks and follows no more. Calling it again does nothing. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#link.close();
    this.#stream.close();
    for (const [threadId, { thread, stayOn }] of [...this.#threads]) {
      if (stayOn !== undefined) {
        stayOn();
        this.#threads.delete(threadId);
      }
      thread.close();
    }
  }

  #add(threadId: string): Followed {
    checkThreadId(threadId);
    const thread = new ThreadClock(threadId, this.#stream, this.#graceMs, this.#clock);
    const followed = { thread, stopwatches: 0, stayOn: undefined };
    this.#threads.set(threadId, followed);
    if (this.#closed) thread.close();
    else this.#stream.add(threadId);
    return followed;
  }

  #leave(followed: Followed): void {
    followed.stopwatches--;
    if (followed.stopwatches > 0) return;
    const { threadId } = followed.thread;
    if (this.#closed) {
      this.#threads.delete(threadId);
      return;
    }
    followed.stayOn = this.#clock.timer(LINGER_MS, () => {
      this.#threads.delete(threadId);
      this.#stream.remove(threadId);
      if (this.#threads.size > 0) return;
      this.#link.close();
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
