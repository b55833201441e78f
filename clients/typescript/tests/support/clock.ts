/** A clock that stands until it is moved. */
import type { Clock } from "../../src/stopwatch/clock.js";

export class ManualClock implements Clock {
  #now = 1_000;
  readonly #timers = new Set<{ readonly due: number; readonly callback: () => void }>();

  now(): number {
    return this.#now;
  }

  slept(): number {
    return 0;
  }

  timer(ms: number, callback: () => void): () => void {
    const timer = { due: this.#now + ms, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves on while the code under test runs: no timer fires. */
  take(ms: number): void {
    this.#now += ms;
  }

  /** Moves on, timer by timer; what each of them starts has run before the next. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settled();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.due);
      next.callback();
      await settled();
    }
    this.#now = end;
  }

  get timers(): number {
    return this.#timers.size;
  }

  #next(end: number) {
    return [...this.#timers].filter(({ due }) => due <= end).sort((a, b) => a.due - b.due)[0];
  }
}

/** Waits until every promise that can be settled without I/O is settled. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
