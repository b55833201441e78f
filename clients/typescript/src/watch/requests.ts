/**
 * What the requests of one stream of `Watch` say: which threads are added, removed and confirmed next. Pure: `now` is an argument.
 *
 * 1. One request is unanswered at a time. What changes meanwhile is collected, and sent with the next one.
 * 2. Confirmations come first, in requests of their own: neither a limit on watched threads nor a long list delays them.
 * 3. A refused request has done nothing. A thread that the token does not open is left out until the next stream, all else is sent again.
 */

/** The most ids in one request. */
const MOST_IDS = 500;

export interface Changes {
  readonly add: string[];
  readonly remove: string[];
  readonly confirm: string[];
  /** The next token of the stream, alone. */
  readonly token?: string;
}

interface Unanswered extends Changes {
  readonly sentAt: number;
  readonly confirms: ReadonlySet<string>;
}

export class Requests {
  /** Named to the stream, and not removed. */
  readonly #known = new Set<string>();
  readonly #forbidden = new Set<string>();
  readonly #add = new Set<string>();
  readonly #remove = new Set<string>();
  readonly #confirm = new Set<string>();
  #unanswered: Unanswered | undefined;
  #token: string | undefined;
  /** A limit allows no sooner request. */
  #addFrom = 0;
  #confirmFrom = 0;
  #confirmingSince: number | undefined;

  /** A new stream watches nothing; these are to be added. */
  restart(threadIds: Iterable<string>): void {
    this.#known.clear();
    this.#add.clear();
    this.#remove.clear();
    for (const threadId of threadIds) this.add(threadId);
  }

  /** The stream is over. Confirmations that were under way are asked for by those who need them; `answered`: the stream had worked. */
  disconnected(answered: boolean): void {
    this.#token = undefined;
    this.#unanswered = undefined;
    this.#known.clear();
    this.#addFrom = 0;
    this.#confirmFrom = 0;
    if (answered) this.#forbidden.clear();
  }

  add(threadId: string): void {
    this.#remove.delete(threadId);
    if (!this.#forbidden.has(threadId)) this.#add.add(threadId);
  }

  remove(threadId: string): void {
    this.#add.delete(threadId);
    this.#forbidden.delete(threadId);
    if (this.#known.has(threadId)) this.#remove.add(threadId);
  }

  /** Asks for the state at `since` or later, unless that is under way. */
  confirm(threadId: string, since: number, now: number): void {
    const asked = this.#unanswered;
    if (this.#forbidden.has(threadId) || (asked?.confirms.has(threadId) && asked.sentAt >= since)) return;
    this.#confirm.add(threadId);
    this.#confirmingSince ??= now;
  }

  /** Nobody needs the confirmation any more. */
  forget(threadId: string): void {
    this.#confirm.delete(threadId);
    this.#settle();
  }

  /** Since when a confirmation has waited for its answer, that no limit holds back. */
  confirmingSince(now: number): number | undefined {
    return now < this.#confirmFrom ? undefined : this.#confirmingSince;
  }

  /** When the confirmation that is under way was asked for. */
  sentAt(threadId: string): number | undefined {
    return this.#unanswered?.confirms.has(threadId) ? this.#unanswered.sentAt : undefined;
  }

  /** Whether changes of the thread will come. */
  watches(threadId: string): boolean {
    return this.#known.has(threadId);
  }

  /** Whether there are threads that the stream has not told yet, and may be asked for. */
  get isComplete(): boolean {
    return this.#add.size === 0 && (this.#unanswered?.add.length ?? 0) === 0;
  }

  /** The next request, which counts as sent; `undefined`: nothing is to be sent now. */
  next(now: number): Changes | undefined {
    if (this.#unanswered !== undefined) return undefined;
    if (this.#token !== undefined) {
      // Alone: refused, it has nothing that must be sent again.
      const request = { add: [], remove: [], confirm: [], token: this.#token };
      this.#unanswered = { ...request, sentAt: now, confirms: new Set() };
      this.#token = undefined;
      return request;
    }
    const confirm = now < this.#confirmFrom ? [] : take(this.#confirm, MOST_IDS);
    const remove = confirm.length > 0 ? [] : take(this.#remove, MOST_IDS);
    const add = confirm.length > 0 || now < this.#addFrom ? [] : take(this.#add, MOST_IDS - remove.length);
    if (confirm.length + remove.length + add.length === 0) return undefined;
    for (const threadId of remove) this.#known.delete(threadId);
    for (const threadId of add) this.#known.add(threadId);
    if (confirm.length > 0) this.#confirmingSince = now;
    this.#unanswered = { add, remove, confirm, sentAt: now, confirms: new Set(confirm) };
    return { add, remove, confirm };
  }

  /** Renews the token of a stream that has answered a request. */
  renew(token: string): void {
    this.#token = token;
  }

  /** How long a limit holds back what is to be sent; `undefined`: it holds nothing back. */
  heldBackMs(now: number): number | undefined {
    if (this.#unanswered !== undefined) return undefined;
    const waits = [this.#add.size > 0 ? this.#addFrom - now : 0, this.#confirm.size > 0 ? this.#confirmFrom - now : 0];
    const held = waits.filter((wait) => wait > 0);
    return held.length === 0 ? undefined : Math.min(...held);
  }

  /** The unanswered request is answered. */
  answered(): void {
    this.#unanswered = undefined;
    this.#settle();
  }

  /** It was refused, because of `forbidden` or else until `again`. Gives the threads that are not watched because of that. */
  refused(forbidden: readonly string[], again: number): string[] {
    const { add = [], remove = [], confirm = [], token } = this.#unanswered ?? {};
    this.#unanswered = undefined;
    if (token !== undefined) return [];
    const isForbidden = new Set(forbidden);
    const wanted = add.filter((threadId) => !this.#remove.delete(threadId));
    for (const threadId of add) this.#known.delete(threadId);
    for (const threadId of forbidden) this.#forbidden.add(threadId);
    for (const threadId of wanted) this.add(threadId);
    for (const threadId of remove) {
      this.#known.add(threadId);
      if (!this.#add.has(threadId)) this.#remove.add(threadId);
    }
    for (const threadId of confirm) if (!isForbidden.has(threadId)) this.#confirm.add(threadId);
    if (forbidden.length === 0 && confirm.length > 0) this.#confirmFrom = again;
    if (forbidden.length === 0 && confirm.length === 0) this.#addFrom = again;
    this.#settle();
    return forbidden.length > 0 ? wanted.filter((threadId) => isForbidden.has(threadId)) : wanted;
  }

  #settle(): void {
    if (this.#confirm.size === 0 && !this.#unanswered?.confirm.length) this.#confirmingSince = undefined;
  }
}

function take(ids: Set<string>, most: number): string[] {
  const taken: string[] = [];
  for (const threadId of ids) {
    if (taken.length >= most) break;
    ids.delete(threadId);
    taken.push(threadId);
  }
  return taken;
}
