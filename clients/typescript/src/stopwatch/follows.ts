/**
 * The threads whose pauses stop one stopwatch: its own, and those that it awaits.
 *
 * 1. A thread that is awaited several times is followed once, until the last of these waits ends.
 * 2. The union of their pauses is settled at every change while all of them are heard, and not within a gap: see `PausedUnion`.
 */
import { PausedUnion } from "./paused-union.js";
import type { Observer, ThreadClock, Waiter } from "./thread.js";

/** One thread, since a stopwatch joined it. */
export class Follow {
  readonly thread: ThreadClock;
  readonly joinedAt: number;
  /** How many wait for it. */
  awaited = 1;
  /** The thread's paused time when it joined, as far as is known. */
  #base: number;
  #used = 0;

  constructor(thread: ThreadClock, now: number) {
    this.thread = thread;
    this.joinedAt = now;
    this.#base = thread.pausedTime(now);
  }

  /** How long the thread has been paused since it joined. */
  pausedTime(now: number): number {
    return this.thread.pausedTime(now) - this.#base;
  }

  /**
   * What was assumed when it joined may have been wrong: neither is time before that charged, nor a pause before it credited. What was used
   * meanwhile is never charged again: a pause of the stopwatch's own may have been in it.
   */
  correct(now: number): void {
    const pausedTime = this.pausedTime(now);
    this.#base += pausedTime - Math.max(Math.min(pausedTime, now - this.joinedAt), this.#used);
  }

  /** The stopwatch has used the paused time of `now`. */
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

  /** In the order in which they were joined: its own first. */
  get all(): Follow[] {
    return [...this.#follows.values()];
  }

  /** Those that are paused. */
  paused(now: number): ThreadClock[] {
    return this.all.map(({ thread }) => thread).filter((thread) => thread.isPaused(now));
  }

  /** Those that are not heard. */
  get unlinked(): ThreadClock[] {
    return this.all.map(({ thread }) => thread).filter((thread) => !thread.linked);
  }

  /** How long any of them has been paused. */
  pausedTime(now: number): number {
    return this.#union.total(now, this.#pausedTimes(now));
  }

  /** The stopwatch has used the paused time of `now`. */
  used(now: number): void {
    for (const follow of this.#follows.values()) follow.use(now);
  }

  /** One of them has changed, or is not heard any more. */
  correct(now: number): void {
    for (const follow of this.#follows.values()) follow.correct(now);
  }

  /** Until now all were as they are known. */
  settle(now: number): void {
    if (this.unlinked.length === 0) this.#union.settle(now, this.#pausedTimes(now));
  }

  /** Whether it is followed already; then one more waits for it. */
  again(threadId: string): boolean {
    const follow = this.#follows.get(threadId);
    if (follow !== undefined) follow.awaited++;
    return follow !== undefined;
  }

  /** Follows one that is not followed yet. The first is its own. */
  add(thread: ThreadClock, now: number): void {
    this.settle(now);
    thread.observe(this);
    const follow = new Follow(thread, now);
    this.#follows.set(thread.threadId, follow);
    this.#union.add(thread.threadId, follow.pausedTime(now));
  }

  /** One waits for it no more. Returns the thread when that was the last. */
  remove(threadId: string, now: number): ThreadClock | undefined {
    const follow = this.#follows.get(threadId);
    if (follow === undefined || --follow.awaited > 0) return undefined;
    this.#union.remove(threadId, follow.pausedTime(now));
    this.#follows.delete(threadId);
    follow.thread.ignore(this);
    this.settle(now);
    return follow.thread;
  }

  /** `waiter` waits for none of them. */
  leave(waiter: Waiter): void {
    for (const { thread } of this.#follows.values()) thread.leave(waiter);
  }

  /** Observes none of them any more. */
  close(): void {
    for (const { thread } of this.#follows.values()) thread.ignore(this);
  }

  #pausedTimes(now: number): Map<string, number> {
    return new Map(this.all.map((follow) => [follow.thread.threadId, follow.pausedTime(now)]));
  }
}
