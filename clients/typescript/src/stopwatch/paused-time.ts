/**
 * How long one thread has been paused since this process began to follow it, as far as it knows.
 *
 * The server's `pausedTotalMs` is exact at each state; between states the local clock is used. So
 *
 *     pausedTime = pausedTotal - pausedTotal at the beginning     (+ the local time since the state, while paused)
 *
 * and a pause that began or ended unobserved is in the difference of two totals. Pure: no clock is read; times are milliseconds.
 *
 * 1. No time before the beginning is credited, and never more than the time since then. The first state does not say which part of its total
 *    was before the beginning; all that may have been after it is credited (the first state arrives within milliseconds, unless the link was
 *    down).
 * 2. After a disconnect, a paused thread counts as paused for `grace`, then as running: leases that end its pause cannot be observed. A link
 *    that died in silence counts as lost since its last message. The next state corrects the assumption, in both directions.
 * 3. Another epoch, or a total or a revision that decreased, means that the server lost its state (or forgot an idle thread). The new total is
 *    not comparable with the old one: the paused time so far is kept, and grows by the new total, but at most by the time since the last
 *    state. A server without epochs sends epoch 0; then total and revision are compared. But an open pause is not forgotten: a lower total
 *    after an open pause, in the same epoch, is the total at an earlier moment, for example from another replica; then
 *    the known total is used.
 * 4. The local clock stands still while the machine sleeps; the server's clock may not. If a pause spans a sleep, the sleep is not credited, so
 *    that it cannot make up for time that was charged. A state that was sent before the sleep and arrives after it does not have the sleep in
 *    its total; then the sleep is subtracted from the next total.
 */

import type { Version } from "../version.js";

/** A shorter sleep of the machine is treated as noise between two clocks. */
const MIN_SLEEP = 100;
/** The longest time in transit of a state: after it, its connection has been given up. */
const MAX_TRANSIT_TIME = 15_000;

/** The parts of a state that are used here. */
export interface Seen {
  readonly version: Version;
  readonly paused: boolean;
  readonly total: number;
}

/** A moment, and how long the machine has slept until then. */
export interface Now {
  readonly at: number;
  readonly slept: number;
}

interface Last {
  readonly seen: Seen;
  readonly now: Now;
  readonly pausedTime: number;
  /** The sleep before this state arrived that may have been after it was sent: then it is part of the next total. */
  readonly unsettled: number;
}

export class PausedTimeTracker {
  readonly #began: number;
  readonly #grace: number;
  #last: Last | undefined;
  /** When the watch was disconnected; `undefined`: it is connected. */
  #disconnectedAt: number | undefined;
  /** When it was closed; Infinity: it is not closed. */
  #closedAt = Number.POSITIVE_INFINITY;

  constructor(now: number, grace: number) {
    this.#began = now;
    this.#grace = grace;
    this.#disconnectedAt = now;
  }

  /** How long the thread has been paused since the beginning. */
  pausedTime(now: number): number {
    const last = this.#last;
    if (last === undefined) return 0;
    const open = last.seen.paused ? Math.max(Math.min(now, this.validUntil ?? now) - last.now.at, 0) : 0;
    return last.pausedTime + open;
  }

  isPaused(now: number): boolean {
    const { validUntil } = this;
    return this.#last?.seen.paused === true && (validUntil === undefined || now < validUntil);
  }

  /** When a pause that cannot be confirmed stops counting; `undefined`: the link is up. */
  get validUntil(): number | undefined {
    return this.#disconnectedAt === undefined
      ? undefined
      : Math.min(this.#disconnectedAt + this.#grace, this.#closedAt);
  }

  /** How much of the grace the open, unconfirmed pause uses, for a stopwatch that joined at `joined`. */
  unconfirmedPause(joined: number): number {
    const since = this.#disconnectedAt;
    if (since === undefined || this.#last?.seen.paused !== true) return 0;
    return Math.max(since + this.#grace - Math.max(since, joined), 0);
  }

  /** Notes that the watch has been disconnected since `since`. Returns whether waiters must check again. */
  disconnect(now: number, since: number): boolean {
    const wasPaused = this.isPaused(now);
    this.#disconnectedAt ??= Math.max(since, this.#last?.now.at ?? since);
    return wasPaused;
  }

  /** Notes that no more states will arrive: from now on the thread counts as running. */
  close(now: number): void {
    this.disconnect(now, now);
    this.#closedAt = now;
  }

  get closed(): boolean {
    return this.#closedAt < Number.POSITIVE_INFINITY;
  }

  /** Applies a state. Returns whether waiters must check again: after a resume, and when an assumption is corrected. */
  apply(now: Now, told: Seen): boolean {
    const seen = after(this.#last?.seen, told);
    const wasDisconnected = this.#disconnectedAt !== undefined;
    const wasPaused = this.isPaused(now.at);
    const { pausedTime: uncapped, unsettled } = this.#pausedTimeAt(now, seen);
    const pausedTime = Math.min(uncapped, Math.max(now.at - this.#began, 0));
    this.#disconnectedAt = undefined;
    this.#last = { seen, now, pausedTime, unsettled: seen.paused ? unsettled : 0 };
    return wasDisconnected || (wasPaused && !seen.paused);
  }

  /** The paused time with this state, and the sleep of the machine that may be in the next total. */
  #pausedTimeAt(now: Now, seen: Seen): { pausedTime: number; unsettled: number } {
    const last = this.#last;
    if (last === undefined) return { pausedTime: seen.total, unsettled: 0 };
    if (!isLost(last.seen, seen)) {
      const { credited, unsettled } = awake(last, now, seen.total - last.seen.total);
      return { pausedTime: last.pausedTime + credited, unsettled };
    }
    // A pause was observed until the disconnect; the new total can be in addition to it.
    const seenUntil = last.seen.paused ? (this.#disconnectedAt ?? now.at) : last.now.at;
    const since = Math.max(now.at - seenUntil, 0);
    return {
      pausedTime: Math.max(this.pausedTime(now.at), this.pausedTime(seenUntil) + Math.min(seen.total, since)),
      unsettled: 0,
    };
  }
}

/** Whether the revisions and totals can be compared. Epoch 0: the server has none. */
function areComparable(one: Version, other: Version): boolean {
  return one.epoch === other.epoch || one.epoch === 0n || other.epoch === 0n;
}

/** `seen` after `last`: no open pause gets shorter. */
function after(last: Seen | undefined, seen: Seen): Seen {
  const isOpen = last?.paused === true && seen.version.epoch === last.version.epoch && seen.version.epoch !== 0n;
  return isOpen && seen.total < last.total ? { ...seen, total: last.total } : seen;
}

/** Whether the server lost `last` before it sent `seen`. */
function isLost(last: Seen, seen: Seen): boolean {
  if (!areComparable(last.version, seen.version)) return true;
  return seen.version.revision < last.version.revision || seen.total < last.total;
}

/**
 * The part of `growth` (the paused time between `last` and `now`) in which this machine was awake, and the sleep that may be in the next total
 * instead.
 *
 * If the thread was paused in its last state, it was probably paused all the time: then the growth is the time awake plus the sleeps that are
 * in the total. The closest combination is chosen.
 */
function awake(last: Last, now: Now, growth: number): { credited: number; unsettled: number } {
  const timeAwake = Math.max(now.at - last.now.at, 0);
  const slept = now.slept - last.now.slept;
  const fresh = slept < MIN_SLEEP ? 0 : slept;
  const old = last.unsettled;
  if (fresh === 0 && old === 0) return { credited: growth, unsettled: 0 };
  if (!last.seen.paused) return { credited: Math.min(growth, timeAwake), unsettled: fresh };
  let best = { within: 0, unsettled: fresh || old };
  const distance = (within: number) => Math.abs(growth - timeAwake - within);
  for (const choice of [
    { within: fresh, unsettled: 0 },
    { within: old, unsettled: fresh },
    { within: old + fresh, unsettled: 0 },
  ]) {
    if (choice.within <= growth && distance(choice.within) < distance(best.within)) best = choice;
  }
  const { within, unsettled } = best;
  // The last state may have been in transit for some time, which is in the growth too.
  const credited = within > 0 ? growth - within : Math.min(growth, timeAwake + MAX_TRANSIT_TIME);
  return { credited, unsettled };
}
