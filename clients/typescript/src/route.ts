/**
 * Which replica a client uses.
 *
 * 1. There is one position at a time, for everything that a client does: what moves, moves everything.
 * 2. Several callers that fail at one replica move once: a move names the position that it leaves.
 * 3. With one address nothing ever moves.
 */

/** How long a replica may take to answer before the next one is asked: longer than a takeover. */
export const NO_ANSWER_MS = 1_500;
/** The longest random delay before a stream follows its client to another address. */
export const LONGEST_MOVE_DELAY_MS = 500;

export class Route {
  readonly addresses: number;
  readonly #moved: (moves: number) => void;
  readonly #listeners = new Set<() => void>();
  #moves = 0;

  /** `moved`: called with the number of moves so far. */
  constructor(addresses: number, moved: (moves: number) => void = () => undefined) {
    this.addresses = addresses;
    this.#moved = moved;
  }

  /** How often it has moved. */
  get moves(): number {
    return this.#moves;
  }

  /** Whether there is another replica to ask. */
  get several(): boolean {
    return this.addresses > 1;
  }

  /** Goes to the next address, unless that was done since there had been so many moves. `false`: there is no other. */
  moveOn(moves: number): boolean {
    if (!this.several) return false;
    if (this.#moves !== moves) return true;
    this.#moves = moves + 1;
    this.#moved(this.#moves);
    for (const listener of [...this.#listeners]) listener();
    return true;
  }

  /** Calls it after each move, until the function that it returns is called. */
  onMove(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** In random order, so that clients share the replicas evenly. */
export function shuffled<T>(list: readonly T[], random: () => number = Math.random): T[] {
  const result = [...list];
  for (let last = result.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [result[last], result[other]] = [result[other] as T, result[last] as T];
  }
  return result;
}
