/**
 * The replica that a client uses.
 *
 * 1. A client has one position at a time for everything: a move to another address moves the whole client.
 * 2. If several calls fail at one replica, the client moves once: each call names the position that it failed at.
 * 3. With one address the client never moves.
 */

/** How long a replica may take to answer before the client moves to the next one: longer than a takeover. */
export const ANSWER_TIMEOUT_MS = 1_500;
/** The longest random delay before a stream follows its client to another address. */
export const MAX_MOVE_DELAY_MS = 500;

export class Route {
  readonly addresses: number;
  readonly #moved: (moves: number) => void;
  readonly #listeners = new Set<() => void>();
  #moves = 0;

  /** `moved`: called at each move, with the number of moves so far. */
  constructor(addresses: number, moved: (moves: number) => void = () => undefined) {
    this.addresses = addresses;
    this.#moved = moved;
  }

  /** The number of moves so far. */
  get moves(): number {
    return this.#moves;
  }

  /** Whether there is more than one address. */
  get hasSeveral(): boolean {
    return this.addresses > 1;
  }

  /** Moves to the next address, unless the client has moved since `moves` was read. Returns `false` if there is no other address. */
  moveOn(moves: number): boolean {
    if (!this.hasSeveral) return false;
    if (this.#moves !== moves) return true;
    this.#moves = moves + 1;
    this.#moved(this.#moves);
    for (const listener of [...this.#listeners]) listener();
    return true;
  }

  /** Calls `listener` after each move. Returns a function that ends this. */
  onMove(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The list in random order, so that clients are distributed evenly over the replicas. */
export function shuffled<T>(list: readonly T[], random: () => number = Math.random): T[] {
  const result = [...list];
  for (let last = result.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [result[last], result[other]] = [result[other] as T, result[last] as T];
  }
  return result;
}
