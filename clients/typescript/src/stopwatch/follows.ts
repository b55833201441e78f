/**
 * The threads whose pauses stop one stopwatch: its own, and those that it awaits.
 *
 * 1. A thread that is awaited several times is followed once, until the last of these waits ends.
 * 2. The union of their pauses is settled at every change while all threads are linked, but not within a gap: see `PausedUnion`.
 */
import { PausedUnion } from "./paused-union.js";
import type { Observer, ThreadClock, Waiter } from "./thread.js";

/** One thread, since a stopwatch joined it. */
export class Follow {
  readonly thread: ThreadClock;
  readonly joinedAt: number;
  /** How many times it is awaited. */
  awaited = 1;
  /** The thread's paused time when the stopwatch joined, as far as it is known. */
  #base: number;
  /** Whether a state has come since. */
  #hasState = false;
  #used = 0;

  constructor(thread: ThreadClock, now: number) {
    this.thread = thread;
    this.joinedAt = now;
    this.#base = thread.pausedTime(now);
  }

  /** How long the thread has been paused since the stopwatch joined. */
  pausedTime(now: number): number {
    return this.thread.pausedTime(now) - this.#base;
  }

  /**
   * Corrects the paused time that was assumed at the join, which may have been wrong: no time before the join is charged, and no pause before
   * the join is credited. With the first state, its open pause (`pausedFor`) is credited since the join, and paused time that was used
   * meanwhile is not charged again: it was measured from the assumption, and how much of the difference is older than the join is not known.
   * Later, a pause that was assumed too long is charged: the meter knows what of it was in pauses of its own.
   */
  correct(now: number, pausedFor: number): void {
    const pausedTime = this.pausedTime(now);
    const sinceJoin = now - this.joinedAt;
    const isFirstState = this.thread.linked && !this.#hasState;
    this.#hasState ||= isFirstState;
    const least = isFirstState ? Math.max(this.#used, Math.min(pausedFor, sinceJoin)) : 0;
    this.#base += pausedTime - Math.max(Math.min(pausedTime, sinceJoin), least);
  }

  /** Notes that the stopwatch has used the paused time of `now`. */
  use(now: number): void {
    this.#used = this.pausedTime(now);
  }
}

export class Follows implements Observer {
  readonly #union: PausedUnion;
  readonly #follows = new Map<string, Follow>();

  /** `now`: when the stopwatch started. */
  constructor(now: number) {
    this.#union = new PausedUnion(now);
  }

  /** All threads, in the order in which they were joined: its own first. */
  get all(): Follow[] {
    return [...this.#follows.values()];
  }

  /** The threads that are paused. */
  paused(now: number): ThreadClock[] {
    return this.all.map(({ thread }) => thread).filter((thread) => thread.isPaused(now));
  }

  /** The threads that are not linked. */
  get unlinked(): ThreadClock[] {
    return this.all.map(({ thread }) => thread).filter((thread) => !thread.linked);
  }

  /** How long any of the threads has been paused. */
  pausedTime(now: number): number {
    return this.#union.total(now, this.#pausedTimes(now));
  }

  /** Notes that the stopwatch has used the paused time of `now`. */
  used(now: number): void {
    for (const follow of this.#follows.values()) follow.use(now);
  }

  /** Corrects what was assumed of the thread that has changed or is disconnected; its open pause says nothing about the other ones. */
  correct(threadId: string, now: number, pausedFor: number): void {
    this.#follows.get(threadId)?.correct(now, pausedFor);
  }

  /** Settles the union, if the states of all threads are known until `now`. */
  settle(now: number): void {
    if (this.unlinked.length === 0) this.#union.settle(now, this.#pausedTimes(now));
  }

  /** Awaits a thread once more, if it is followed already. Returns whether it is. */
  awaitAgain(threadId: string): boolean {
    const follow = this.#follows.get(threadId);
    if (follow !== undefined) follow.awaited++;
    return follow !== undefined;
  }

  /** Follows a thread that is not followed yet. The first one is its own. */
  add(thread: ThreadClock, now: number): void {
    this.settle(now);
    thread.observe(this);
    const follow = new Follow(thread, now);
    this.#follows.set(thread.threadId, follow);
    this.#union.add(thread.threadId, follow.pausedTime(now));
  }

  /** Ends one `add` or `awaitAgain`. Returns the thread if that was the last one. */
  remove(threadId: string, now: number): ThreadClock | undefined {
    const follow = this.#follows.get(threadId);
    if (follow === undefined || --follow.awaited > 0) return undefined;
    this.#union.remove(threadId, follow.pausedTime(now));
    this.#follows.delete(threadId);
    follow.thread.ignore(this);
    this.settle(now);
    return follow.thread;
  }

  /** Removes `waiter` from all threads. */
  leave(waiter: Waiter): void {
    for (const { thread } of this.#follows.values()) thread.leave(waiter);
  }

  /** Stops observing the threads. */
  close(): void {
    for (const { thread } of this.#follows.values()) thread.ignore(this);
  }

  #pausedTimes(now: number): Map<string, number> {
    return new Map(this.all.map((follow) => [follow.thread.threadId, follow.pausedTime(now)]));
  }
}
