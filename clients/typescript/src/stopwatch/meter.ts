/**
 * What one stopwatch has been charged: wall time, less its threads' paused time, less its own pauses.
 *
 * Pure: no clock is read; `now` and the paused time of its threads (`pausedTime`, see `Follows`) are arguments, in milliseconds. What has been
 * charged is kept up to a mark and computed from there, so each operation is a few additions.
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
  /** Pauses of its own that are open. */
  #pauses = 0;
  #shown = 0;

  /** `limit`: Infinity for none. */
  constructor(limit: number, now: number) {
    this.limit = limit;
    this.#mark = now;
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
