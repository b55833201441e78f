/**
 * What one stopwatch has been charged: wall time, less its thread's paused time, less its own pauses.
 *
 * Pure: no clock is read; `now` and the thread's paused time (`paid`, see `credit`) are arguments, in milliseconds. What has been charged is
 * kept up to a mark and computed from there, so each operation is a few additions whatever happened before.
 *
 * 1. What is charged is never below zero, and what is shown never goes backwards: a credit that arrives late shows as a standstill until it
 *    is used up.
 * 2. Where a pause of the stopwatch's own and one of its thread overlap, the time counts once.
 */
export class Meter {
  readonly limit: number;
  /** Charged up to `mark`, when the thread's paused time was `paidAtMark`. */
  #charged = 0;
  #mark: number;
  #paidAtMark = 0;
  /** When it began to follow its thread, and where the paused time was thought to stand then. */
  #followed: { readonly at: number; readonly paid: number };
  /** Pauses of its own that are open. */
  #pauses = 0;
  #shown = 0;

  /** `limit`: Infinity for none. */
  constructor(limit: number, now: number) {
    this.limit = limit;
    this.#mark = now;
    this.#followed = { at: now, paid: 0 };
  }

  /** Whether it stands still by a pause of its own. */
  get paused(): boolean {
    return this.#pauses > 0;
  }

  pause(now: number, paid: number): void {
    this.settle(now, paid);
    this.#pauses++;
  }

  /** Ends one of its own pauses; says whether it was the last. */
  resume(now: number, paid: number): boolean {
    this.settle(now, paid);
    this.#pauses = Math.max(this.#pauses - 1, 0);
    return this.#pauses === 0;
  }

  /** From now on the paused time is another thread's, which stands at `paid`. */
  follow(now: number, old: number, paid: number): void {
    this.settle(now, old);
    this.#paidAtMark = paid;
    this.#followed = { at: now, paid };
  }

  /**
   * From now on the paused time stands at `paid`; what it stood at since it began to follow was only assumed. The difference may be from
   * before that, so it is charged or credited no more than the time since. What was settled meanwhile is credited at most: a pause of its
   * own may have been in it.
   */
  place(now: number, paid: number): void {
    const { at, paid: assumed } = this.#followed;
    const growth = Math.min(Math.max(paid - assumed, 0), Math.max(now - at, 0));
    this.settle(now, Math.max(assumed + growth, this.#paidAtMark));
    this.#paidAtMark = paid;
  }

  /** Moves the mark. */
  settle(now: number, paid: number): void {
    this.#charged = this.charged(now, paid);
    this.#mark = Math.max(this.#mark, now);
    this.#paidAtMark = paid;
  }

  /** What has been charged, as exactly as is known now. */
  charged(now: number, paid: number): number {
    const charged = this.#charged + this.#sinceMark(now, paid);
    if (charged >= 0) return charged;
    // More credit than time: the rest must not be spent later.
    this.#charged = 0;
    this.#mark = Math.max(this.#mark, now);
    this.#paidAtMark = paid;
    return 0;
  }

  /** What is left of the limit; negative: how far it is beyond. */
  left(now: number, paid: number): number {
    return this.limit - this.charged(now, paid);
  }

  /** What to show as elapsed. */
  elapsed(now: number, paid: number): number {
    this.#shown = Math.max(this.#shown, this.charged(now, paid));
    return this.#shown;
  }

  #sinceMark(now: number, paid: number): number {
    const span = Math.max(now - this.#mark, 0);
    // Negative when less was paused than had been assumed while cut off.
    const growth = paid - this.#paidAtMark;
    if (this.#pauses === 0 || growth > span) return span - growth;
    // All of `span` is free already; what the thread was paused beyond it was paused before the mark.
    return Math.max(-growth, 0);
  }
}
