/**
 * The time that one stopwatch has been charged: wall time, less its threads' paused time, less its own pauses.
 *
 * Pure: no clock is read; `now` and the paused time of its threads (`pausedTime`, see `Follows`) are arguments, in milliseconds. The charged
 * time is stored up to a mark and computed from there, so each operation is a few additions.
 *
 * 1. The charged time is never below zero, and the elapsed time never decreases: after a late credit, the elapsed time
 *    stands still until the credit is used up.
 * 2. Where a pause of the stopwatch itself and a pause of its thread overlap, the time is subtracted once. If the thread was not paused
 *    then after all, the time is still not charged: see `Covered`.
 */
import { Covered } from "./covered.js";

export class Meter {
  readonly limit: number;
  /** Charged up to `mark`, when the thread's paused time was `pausedTimeAtMark`. */
  #charged = 0;
  #mark: number;
  #pausedTimeAtMark = 0;
  /** The number of open pauses of its own. */
  #pauses = 0;
  readonly #covered = new Covered();
  #shown = 0;

  /** `limit` Infinity: there is no limit. */
  constructor(limit: number, now: number) {
    this.limit = limit;
    this.#mark = now;
  }

  /** Whether a pause of its own is open. */
  get paused(): boolean {
    return this.#pauses > 0;
  }

  pause(now: number, pausedTime: number): void {
    this.settle(now, pausedTime);
    this.#pauses++;
  }

  /** Closes one of its own pauses. Returns whether it was the last one. */
  resume(now: number, pausedTime: number): boolean {
    this.settle(now, pausedTime);
    this.#pauses = Math.max(this.#pauses - 1, 0);
    return this.#pauses === 0;
  }

  /** Moves the mark to `now`. */
  settle(now: number, pausedTime: number): void {
    this.#moveMark(this.charged(now, pausedTime), now, pausedTime);
  }

  /** The charged time, as exactly as it is known now. */
  charged(now: number, pausedTime: number): number {
    const charged = this.#charged + this.#sinceMark(now, pausedTime) - this.#covered.beyond(pausedTime);
    if (charged >= 0) return charged;
    // More paused time than wall time: the rest must not be credited later.
    this.#moveMark(0, now, pausedTime);
    return 0;
  }

  /** The limit less the charged time; negative beyond the limit. */
  left(now: number, pausedTime: number): number {
    return this.limit - this.charged(now, pausedTime);
  }

  /** The elapsed time to report; never decreases. */
  elapsed(now: number, pausedTime: number): number {
    this.#shown = Math.max(this.#shown, this.charged(now, pausedTime));
    return this.#shown;
  }

  #moveMark(charged: number, now: number, pausedTime: number): void {
    this.#covered.cut(pausedTime);
    if (this.paused) {
      // If the paused time grew by more than the time since the mark, the rest is older than this pause.
      const span = Math.max(now - this.#mark, 0);
      this.#covered.add(Math.max(this.#pausedTimeAtMark, pausedTime - span), pausedTime);
    }
    this.#charged = charged;
    this.#mark = Math.max(this.#mark, now);
    this.#pausedTimeAtMark = pausedTime;
  }

  #sinceMark(now: number, pausedTime: number): number {
    const span = Math.max(now - this.#mark, 0);
    // Negative if the thread was paused for less time than was assumed while disconnected.
    const growth = pausedTime - this.#pausedTimeAtMark;
    if (this.#pauses === 0 || growth > span) return span - growth;
    // The whole span is not charged anyway. Only a correction of the paused time before the mark is.
    return Math.max(-growth, 0);
  }
}
