/**
 * Which stopwatch follows which thread; and from the watch to the threads' clocks.
 *
 * 1. One watch follows all threads of a follower.
 * 2. A thread is followed for `LINGER_MS` after its last stopwatch left: the next command of the thread starts with exact knowledge and costs
 *    the coordinator nothing.
 * 3. A follower that has no thread any more says so, and is not used again: its watch is to be closed.
 */
import type { PauseState } from "../messages.js";
import type { WatchEvent } from "../watch/event.js";
import type { Clock } from "./clock.js";
import type { Stopwatch } from "./stopwatch.js";
import { type Coordinator, ThreadClock } from "./thread.js";

/** How long a thread without stopwatches is still followed. */
const LINGER_MS = 30_000;

/** The part of a watch that a follower needs. */
export interface States extends AsyncIterable<WatchEvent> {
  add(threadId: string): void;
  remove(threadId: string): void;
}

interface Followed {
  readonly thread: ThreadClock;
  stopwatches: number;
  /** Ends the wait for the end of its lingering. */
  stayOn: (() => void) | undefined;
}

export class Follower {
  readonly #states: States;
  readonly #coordinator: Coordinator;
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  readonly #threads = new Map<string, Followed>();
  #lingerMs = LINGER_MS;

  /** `onIdle`: called when the last thread is not followed any more. */
  constructor(states: States, coordinator: Coordinator, clock: Clock, onIdle: () => void) {
    this.#states = states;
    this.#coordinator = coordinator;
    this.#clock = clock;
    this.#onIdle = onIdle;
    void this.#follow();
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
      this.#states.add(threadId);
      const thread = new ThreadClock(threadId, this.#coordinator, this.#clock);
      followed = { thread, stopwatches: 0, stayOn: undefined };
      this.#threads.set(threadId, followed);
    }
    followed.stayOn?.();
    followed.stayOn = undefined;
    followed.stopwatches++;
    return followed;
  }

  #leave(followed: Followed): void {
    followed.stopwatches--;
    if (followed.stopwatches === 0) this.#linger(followed);
  }

  #linger(followed: Followed): void {
    const { threadId } = followed.thread;
    followed.stayOn?.();
    followed.stayOn = this.#clock.timer(this.#lingerMs, () => {
      this.#threads.delete(threadId);
      this.#states.remove(threadId);
      if (this.#threads.size === 0) this.#onIdle();
    });
  }

  /** Ends with the watch, which ends with its client: from then on nothing is heard, and to linger is of no use. */
  async #follow(): Promise<void> {
    for await (const event of this.#states) {
      if (event.type === "state") this.#apply(event.state, event.gap);
      if (event.type === "disconnected") this.#disconnect(event.threadIds, event.silentForMs);
    }
    this.#disconnect(this.#threads.keys(), 0);
    this.#lingerMs = 0;
    for (const followed of this.#threads.values()) if (followed.stopwatches === 0) this.#linger(followed);
  }

  #apply(state: PauseState, gap: boolean): void {
    this.#threads.get(state.threadId)?.thread.apply(state, { by: "watch", gap });
  }

  #disconnect(threadIds: Iterable<string>, silentForMs: number): void {
    for (const threadId of threadIds) this.#threads.get(threadId)?.thread.disconnect(silentForMs);
  }
}
