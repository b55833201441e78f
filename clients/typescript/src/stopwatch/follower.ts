/**
 * Which stopwatch follows which thread. Passes the events of the stream to the threads' clocks.
 *
 * 1. One stream follows all threads of a follower.
 * 2. A thread is followed for `LINGER_MS` after its last stopwatch: the next command of the thread starts with the exact state, and without a
 *    request to the coordinator.
 * 3. Stopwatches outlive their client: closing the follower stops none of them, and their threads count as running.
 * 4. A follower without threads closes its stream, calls `onIdle`, and is not used again.
 */
import type { CallError } from "../errors.js";
import { checkThreadId } from "../fields.js";
import type { PauseState } from "../messages.js";
import type { Listener, WatchStream } from "../watch/stream.js";
import type { Clock } from "./clock.js";
import type { LinkReporter } from "./link.js";
import { type Coordinator, ThreadClock } from "./thread.js";

/** How long a thread is followed after its last stopwatch. */
const LINGER_MS = 30_000;

/** The part of a stream that a follower needs. */
export type Stream = Coordinator & Pick<WatchStream, "start" | "close" | "add" | "remove" | "watches">;

interface Followed {
  readonly thread: ThreadClock;
  stopwatches: number;
  /** It was refused, and no state has come since. */
  refused: boolean;
  /** Cancels the timer that ends the following; `undefined`: it has stopwatches. */
  cancelRemoval: (() => void) | undefined;
}

export class Follower {
  readonly #stream: Stream;
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  readonly #link: LinkReporter;
  readonly #threads = new Map<string, Followed>();
  #closed = false;

  /** `open`: opens the stream; `onIdle`: called when no thread is followed any more. */
  constructor(
    open: (listener: Listener) => Stream,
    graceMs: number,
    clock: Clock,
    onIdle: () => void,
    link: LinkReporter,
  ) {
    this.#link = link;
    this.#stream = open({
      threadIds: () => this.#threads.keys(),
      state: (state) => this.#state(state),
      confirmed: (states, sentAt) => this.#confirm(states, sentAt),
      complete: () => this.#link.connected(),
      refused: (threadIds, error) => this.#refused(threadIds, error),
      disconnected: (error, silentForMs) => {
        // The threads first: when the program receives the new state of the link, its timeouts already have it.
        for (const { thread } of this.#threads.values()) thread.disconnect(silentForMs);
        this.#link.disconnected(error, silentForMs);
      },
      capacity: () => undefined,
    });
    this.#graceMs = graceMs;
    this.#clock = clock;
    this.#onIdle = onIdle;
    this.#stream.start();
  }

  /**
   * Follows a thread. Returns its clock, and a function that ends the following.
   *
   * @throws {InvalidFieldError} The id is not valid.
   */
  enter(threadId: string): { thread: ThreadClock; leave: () => void } {
    const followed = this.#threads.get(threadId) ?? this.#add(threadId);
    followed.cancelRemoval?.();
    followed.cancelRemoval = undefined;
    followed.stopwatches++;
    return { thread: followed.thread, leave: () => this.#leave(followed) };
  }

  /** Ends the stream; no thread is followed any more. Calling it again does nothing. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#link.close();
    this.#stream.close();
    for (const [threadId, { thread, cancelRemoval }] of [...this.#threads]) {
      if (cancelRemoval !== undefined) {
        cancelRemoval();
        this.#threads.delete(threadId);
      }
      thread.close();
    }
  }

  #add(threadId: string): Followed {
    checkThreadId(threadId);
    const thread = new ThreadClock(threadId, this.#stream, this.#graceMs, this.#clock);
    const followed = { thread, stopwatches: 0, refused: false, cancelRemoval: undefined };
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
    followed.cancelRemoval = this.#clock.timer(LINGER_MS, () => {
      this.#threads.delete(threadId);
      this.#stream.remove(threadId);
      if (this.#threads.size > 0) return;
      this.#link.close();
      this.#stream.close();
      this.#onIdle();
    });
  }

  #state(state: PauseState): void {
    const followed = this.#threads.get(state.threadId);
    if (followed === undefined) return;
    followed.refused = false;
    followed.thread.apply(state);
  }

  /**
   * A refused thread was not linked before either, so its timeouts wait for the grace. A warning is logged only once.
   */
  #refused(threadIds: readonly string[], error: CallError): void {
    let isNews = false;
    for (const threadId of threadIds) {
      const followed = this.#threads.get(threadId);
      isNews ||= followed?.refused === false;
      if (followed !== undefined) followed.refused = true;
    }
    if (isNews) this.#link.refused(error);
  }

  #confirm(states: readonly PauseState[], sentAt: number): void {
    for (const state of states) {
      const { threadId } = state;
      this.#threads.get(threadId)?.thread.confirm(state, sentAt, this.#stream.watches(threadId));
    }
  }
}
