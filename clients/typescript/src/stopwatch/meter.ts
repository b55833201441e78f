/**
 * What one stopwatch has been charged: wall time, less its thread's paused time, less its own pauses.
 *
 * Pure: no clock is read; `now` and the thread's paused time (`pausedTime`, see `PausedTimeTracker`) are arguments, in milliseconds. What has been charged is
 * kept up to a mark and computed from there, so each operation is a few additions.
 *
 * 1. What is charged is never below zero, and what is shown never goes backwards: paused time that arrives late shows as a standstill until it
 *    is used up.
 * 2. Where a pause of the stopwatch's own and one of its thread overlap, the time counts once.
 */
export class Meter {
  readonly limit: number;
  /** Charged up to `mark`, when the thread's paused time was `pausedTimeAtMark`. */
  #charged = 0;
  #mark: number;
  #pausedTimeAtMark = 0;
  /** When it began to follow its thread, and where the paused time was thought to stand then. */
  #followed: { readonly at: number; readonly pausedTime: number };
  /** Pauses of its own that are open. */
  #pauses = 0;
  #shown = 0;

  /** `limit`: Infinity for none. */
  constructor(limit: number, now: number) {
    this.limit = limit;
    this.#mark = now;
    this.#followed = { at: now, pausedTime: 0 };
  }

  /** Whether it stands still by a pause of its own. */
  get paused(): boolean {
    return this.#pauses > 0;
  }

  pause(now: number, pausedTime: number): void {
    this.settle(now, pausedTime);
    this.#pauses++;
  }

  /** Ends one of its own pauses; says whether it was the last. */
  resume(now: number, pausedTime: number): boolean {
    this.settle(now, pausedTime);
    this.#pauses = Math.max(this.#pauses - 1, 0);
    return this.#pauses === 0;
  }

  /** From now on the paused time is another thread's, which stands at `pausedTime`. */
  follow(now: number, old: number, pausedTime: number): void {
    this.settle(now, old);
    this.#pausedTimeAtMark = pausedTime;
    this.#followed = { at: now, pausedTime };
  }

  /**
   * From now on the paused time stands at `pausedTime`; what it stood at since it began to follow was only assumed. The difference may be from
   * before that, so it is charged or credited no more than the time since. What was settled meanwhile is credited at most: a pause of its
   * own may have been in it.
   */
  place(now: number, pausedTime: number): void {
    const { at, pausedTime: assumed } = this.#followed;
    const growth = Math.min(Math.max(pausedTime - assumed, 0), Math.max(now - at, 0));
    this.settle(now, Math.max(assumed + growth, this.#pausedTimeAtMark));
    this.#pausedTimeAtMark = pausedTime;
  }

  /** Moves the mark. */
  settle(now: number, pausedTime: number): void {
    this.#charged = this.charged(now, pausedTime);
    this.#mark = Math.max(this.#mark, now);
    this.#pausedTimeAtMark = pausedTime;
  }

  /** What has been charged, as exactly as is known now. */
  charged(now: number, pausedTime: number): number {
    const charged = this.#charged + this.#sinceMark(now, pausedTime);
    if (charged >= 0) return charged;
    // More paused time than time: the rest must not be spent later.
    this.#charged = 0;
    this.#mark = Math.max(this.#mark, now);
    this.#pausedTimeAtMark = pausedTime;
    return 0;
  }

  /** What is left of the limit; negative: how far it is beyond. */
  left(now: number, pausedTime: number): number {
    return this.limit - this.charged(now, pausedTime);
  }

  /** What to show as elapsed. */
  elapsed(now: number, pausedTime: number): number {
    this.#shown = Math.max(this.#shown, this.charged(now, pausedTime));
    return this.#shown;
  }

  #sinceMark(now: number, pausedTime: number): number {
    const span = Math.max(now - this.#mark, 0);
    // Negative when less was paused than had been assumed while cut off.
    const growth = pausedTime - this.#pausedTimeAtMark;
    if (this.#pauses === 0 || growth > span) return span - growth;
    // All of `span` is free already; what the thread was paused beyond it was paused before the mark.
    return Math.max(-growth, 0);
  }
}
