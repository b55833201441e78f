/**
 * How long any of several threads has been paused. Pure: no clock is read, and the paused time of each thread is an argument.
 *
 * While all threads are linked, the result is exact: `settle` sets a mark at every change, and between two marks each thread was paused all the
 * time or not at all. After a gap, in which a thread was not linked, it is known how long each thread was paused, but not when:
 *
 * 1. A gap counts as the largest possible union: the sum of the pauses, but at most the length of the gap, and at least the longest pause. So no
 *    pause is ever charged, and the excess is less than the gap.
 * 2. A thread that is removed in a gap counts with its paused time that is known at that moment.
 */
export class PausedUnion {
  /** The union up to the mark, and the paused time of each thread at the mark. */
  #total = 0;
  #mark: number;
  readonly #atMark = new Map<string, number>();
  /** How long each thread that was removed since the mark was paused since the mark. */
  #removed: number[] = [];

  constructor(now: number) {
    this.#mark = now;
  }

  /** Adds a thread, which counts from now on. */
  add(name: string, pausedTime: number): void {
    this.#atMark.set(name, pausedTime);
  }

  /** Removes a thread, which does not count from now on. */
  remove(name: string, pausedTime: number): void {
    this.#removed.push(pausedTime - (this.#atMark.get(name) ?? pausedTime));
    this.#atMark.delete(name);
  }

  /** Moves the mark to `now`: a thread changes, or a gap ends. Does nothing if `now` is before the mark. */
  settle(now: number, pausedTimes: ReadonlyMap<string, number>): void {
    if (now < this.#mark) return;
    this.#total = this.total(now, pausedTimes);
    this.#mark = now;
    for (const [name, pausedTime] of pausedTimes) this.#atMark.set(name, pausedTime);
    this.#removed = [];
  }

  /** How long any of the threads has been paused, as far as it is known now. `pausedTimes`: of every thread, each with its own zero. */
  total(now: number, pausedTimes: ReadonlyMap<string, number>): number {
    const grown = [...this.#removed];
    for (const [name, pausedTime] of pausedTimes) grown.push(pausedTime - (this.#atMark.get(name) ?? pausedTime));
    if (grown.length === 0) return this.#total;
    const sum = grown.reduce((all, one) => all + one);
    // The longest may be longer than the time since the mark: a correction of what was assumed before.
    return this.#total + Math.max(...grown, Math.min(sum, Math.max(now - this.#mark, 0)));
  }
}
