/**
 * Which part of the paused time of its threads a stopwatch did not use, because it had a pause of its own then.
 *
 * If the thread turns out to have been paused for less time than was assumed, the newest part of its paused time is taken back: an assumed
 * pause ended early. What is taken back is charged, except for the part that was covered, which was never credited.
 *
 * The parts are kept in their order, not only their sum: an old one, in which the thread was paused indeed, must not make up for a later error.
 */

/**
 * The maximum number of parts. Beyond it, the two oldest parts are merged: a correction rarely reaches that far back,
 * and if it does, too little is charged.
 */
const MAX_PARTS = 32;

interface Part {
  readonly begin: number;
  readonly end: number;
}

export class Covered {
  /** From which paused time to which; the oldest first. */
  #parts: Part[] = [];

  /** How much of what is beyond `pausedTime` is covered. */
  beyond(pausedTime: number): number {
    let sum = 0;
    for (const { begin, end } of this.#parts) sum += Math.max(end - Math.max(begin, pausedTime), 0);
    return sum;
  }

  /** Takes back what is beyond `pausedTime`. */
  cut(pausedTime: number): void {
    for (let last = this.#parts.at(-1); last !== undefined && last.end > pausedTime; last = this.#parts.at(-1)) {
      this.#parts.pop();
      if (last.begin < pausedTime) this.#parts.push({ begin: last.begin, end: pausedTime });
    }
  }

  /** Covers the paused time from `begin`, which is not before the last part, to `end`. */
  add(begin: number, end: number): void {
    if (begin >= end) return;
    const joined = this.#parts.at(-1)?.end === begin ? this.#parts.pop() : undefined;
    this.#parts.push({ begin: joined?.begin ?? begin, end });
    const [first, second] = this.#parts;
    if (first === undefined || second === undefined || this.#parts.length <= MAX_PARTS) return;
    this.#parts.splice(0, 2, { begin: first.begin, end: second.end });
  }
}
