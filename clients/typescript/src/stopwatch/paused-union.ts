/**
 * How long any of several threads has been paused. Pure: no clock is read, and the paused time of each thread is an argument.
 *
 * While all of them are heard, that is exact: `settle` marks every change of one, and between two marks each was paused all the while or not
 * at all. Of a gap, in which one could not be heard, it is learnt how long each was paused, but not when:
 *
 * 1. A gap counts as much as is possible: the sum of their pauses, but at most its length, and at least the longest. So no pause is ever
 *    charged, and what is too much is less than the gap.
 * 2. A thread that is removed in a gap counts with what is known of it by then.
 */
export class PausedUnion {
  /** The union up to the mark, and the paused time of each thread there. */
  #total = 0;
  #mark: number;
  readonly #atMark = new Map<string, number>();
  /** How long those were paused that were removed since the mark. */
  #gone: number[] = [];

  constructor(now: number) {
    this.#mark = now;
  }

  /** From now on that thread counts too. */
  add(name: string, pausedTime: number): void {
    this.#atMark.set(name, pausedTime);
  }

  /** From now on that thread does not count. */
  remove(name: string, pausedTime: number): void {
    this.#gone.push(pausedTime - (this.#atMark.get(name) ?? pausedTime));
    this.#atMark.delete(name);
  }

  /** Moves the mark: a change of a thread, or the end of a gap. What is earlier than the mark changes nothing. */
  settle(now: number, pausedTimes: ReadonlyMap<string, number>): void {
    if (now < this.#mark) return;
    this.#total = this.total(now, pausedTimes);
    this.#mark = now;
    for (const [name, pausedTime] of pausedTimes) this.#atMark.set(name, pausedTime);
    this.#gone = [];
  }

  /** How long any of them has been paused, as far as is known now; `pausedTimes`: of all of them, each by its own count. */
  total(now: number, pausedTimes: ReadonlyMap<string, number>): number {
    const grown = [...this.#gone];
    for (const [name, pausedTime] of pausedTimes) grown.push(pausedTime - (this.#atMark.get(name) ?? pausedTime));
    if (grown.length === 0) return this.#total;
    const sum = grown.reduce((all, one) => all + one);
    // The longest may be longer than the time since the mark: a correction of what was assumed before.
    return this.#total + Math.max(...grown, Math.min(sum, Math.max(now - this.#mark, 0)));
  }
}
