/**
 * The requests of a watch: which threads are added, removed and confirmed next. Pure: `now` is an argument.
 *
 * 1. One request is unanswered at a time. Changes and confirmations that are wanted meanwhile are collected for the next one.
 * 2. Confirmations are sent first, in requests of their own: neither a limit on watched threads nor a long list delays them.
 * 3. A refused request has done nothing. All of it is sent again, except the threads that the token may not read: they are excluded until the
 *    next stream.
 */

/** The maximum number of ids per request. */
const MAX_IDS = 500;

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
  /** Threads that were added on this stream, and not removed. */
  readonly #known = new Set<string>();
  readonly #forbidden = new Set<string>();
  readonly #add = new Set<string>();
  readonly #remove = new Set<string>();
  readonly #confirm = new Set<string>();
  #unanswered: Unanswered | undefined;
  #token: string | undefined;
  /** After a refusal: when additions and confirmations may be sent again. */
  #addNotBefore = 0;
  #confirmNotBefore = 0;
  #confirmingSince: number | undefined;

  /** Begins again on a new stream, on which these threads are to be watched. */
  restart(threadIds: Iterable<string>): void {
    this.#known.clear();
    this.#add.clear();
    this.#remove.clear();
    for (const threadId of threadIds) this.add(threadId);
  }

  /**
   * Notes that the stream has ended. Confirmations that were under way must be requested again. `answered`: whether the stream has answered a
   * request.
   */
  disconnected(answered: boolean): void {
    this.#token = undefined;
    this.#unanswered = undefined;
    this.#known.clear();
    this.#addNotBefore = 0;
    this.#confirmNotBefore = 0;
    // A request whose confirmations were all cancelled is lost: nobody waits any more.
    this.#clearIfConfirmed();
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

  /**
   * Requests the confirmation of the thread's state by a request that is sent at `since` or later, unless one is under
   * way.
   */
  confirm(threadId: string, since: number, now: number): void {
    const sent = this.#unanswered;
    if (this.#forbidden.has(threadId) || (sent?.confirms.has(threadId) && sent.sentAt >= since)) return;
    this.#confirm.add(threadId);
    this.#confirmingSince ??= now;
  }

  /** Cancels the thread's confirmation: its answer is no longer needed. */
  cancelConfirmation(threadId: string): void {
    this.#confirm.delete(threadId);
    this.#clearIfConfirmed();
  }

  /** Since when a confirmation has been waited for. `undefined`: there is none, or a limit delays it. */
  confirmingSince(now: number): number | undefined {
    return now < this.#confirmNotBefore ? undefined : this.#confirmingSince;
  }

  /** When the confirmation that is under way was sent. */
  sentAt(threadId: string): number | undefined {
    return this.#unanswered?.confirms.has(threadId) ? this.#unanswered.sentAt : undefined;
  }

  /** Whether changes of the thread will arrive. */
  watches(threadId: string): boolean {
    return this.#known.has(threadId);
  }

  /** Whether every thread that may be watched has been added, and its state has arrived. */
  get isComplete(): boolean {
    return this.#add.size === 0 && (this.#unanswered?.add.length ?? 0) === 0;
  }

  /** The next request, which counts as sent; `undefined`: nothing can be sent now. */
  next(now: number): Changes | undefined {
    if (this.#unanswered !== undefined) return undefined;
    if (this.#token !== undefined) {
      // Alone, so that nothing must be sent again if it is refused.
      const request = { add: [], remove: [], confirm: [], token: this.#token };
      this.#unanswered = { ...request, sentAt: now, confirms: new Set() };
      this.#token = undefined;
      return request;
    }
    const confirm = now < this.#confirmNotBefore ? [] : take(this.#confirm, MAX_IDS);
    const remove = confirm.length > 0 ? [] : take(this.#remove, MAX_IDS);
    const add = confirm.length > 0 || now < this.#addNotBefore ? [] : take(this.#add, MAX_IDS - remove.length);
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

  /** The time until a request that a limit delays can be sent; `undefined`: none is delayed. */
  delayMs(now: number): number | undefined {
    if (this.#unanswered !== undefined) return undefined;
    const add = this.#add.size > 0 ? this.#addNotBefore - now : 0;
    const confirm = this.#confirm.size > 0 ? this.#confirmNotBefore - now : 0;
    const delays = [add, confirm].filter((delay) => delay > 0);
    return delays.length === 0 ? undefined : Math.min(...delays);
  }

  /** Notes that the unanswered request was answered. */
  onAnswer(): void {
    this.#unanswered = undefined;
    this.#clearIfConfirmed();
  }

  /**
   * Notes that the unanswered request was refused: because of the threads in `forbidden`, or if that is empty, until `retryAt`. Returns the
   * threads that are not watched because of it.
   */
  onRefusal(forbidden: readonly string[], retryAt: number): string[] {
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
    if (forbidden.length === 0 && confirm.length > 0) this.#confirmNotBefore = retryAt;
    if (forbidden.length === 0 && confirm.length === 0) this.#addNotBefore = retryAt;
    this.#clearIfConfirmed();
    return forbidden.length > 0 ? wanted.filter((threadId) => isForbidden.has(threadId)) : wanted;
  }

  #clearIfConfirmed(): void {
    if (this.#confirm.size === 0 && !this.#unanswered?.confirm.length) this.#confirmingSince = undefined;
  }
}

function take(ids: Set<string>, max: number): string[] {
  const taken: string[] = [];
  for (const threadId of ids) {
    if (taken.length >= max) break;
    ids.delete(threadId);
    taken.push(threadId);
  }
  return taken;
}
