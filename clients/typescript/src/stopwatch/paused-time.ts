/**
 * How long one thread has been paused since this process began to follow it, as far as it knows.
 *
 * The server's `pausedTotalMs` is exact at each state; between states the local clock carries on. So
 *
 *     pausedTime = pausedTotal - what it was at the beginning     (+ the local time since the state, while paused)
 *
 * and a pause that began or ended unseen is in the difference of two totals. Pure: no clock is read; times are milliseconds.
 *
 * 1. Nothing before the beginning is credited, and never more than the time since then. The first state cannot say which part of its total
 *    was before; what may have been after the beginning is credited (the gap until the first state is milliseconds, unless the link was
 *    down).
 * 2. Cut off, a paused thread counts as paused for `grace`, then as running: the leases that would end its pause cannot be seen. A link
 *    that died in silence was lost with its last message. The next state corrects what was assumed, both ways.
 * 3. Another epoch, or a total or a revision that fell, means that the server lost its state (or forgot an idle thread). The new total has
 *    nothing in common with the old one: the paused time so far stays, and grows by the new total, by the time since the last state at most.
 *    A server without epochs sends 0, which is compared by total and revision.
 * 4. Local time does not run while the machine sleeps, the server's may. Of a pause that spans a sleep the sleep is left out, so that it
 *    cannot pay for time that was charged. A state that was sent before the sleep and came after it does not have it in its total yet, so
 *    that nothing is left out there, but of the next.
 */

import type { Version } from "../version.js";

/** A sleep of the machine shorter than this is noise between two clocks. */
const SHORTEST_SLEEP = 100;
/** A state that is on its way for longer has had its connection given up. */
const LONGEST_WAY = 15_000;

/** What a state says, as far as it matters here. */
export interface Seen {
  readonly version: Version;
  readonly paused: boolean;
  readonly total: number;
}

/** The moment, and how long the machine has slept until then. */
export interface Now {
  readonly at: number;
  readonly slept: number;
}

interface Last {
  readonly seen: Seen;
  readonly now: Now;
  readonly pausedTime: number;
  /** What the machine slept before it came and perhaps after it was sent: then it is part of the next total. */
  readonly unsettled: number;
}

export class PausedTimeTracker {
  readonly #began: number;
  readonly #grace: number;
  #last: Last | undefined;
  /** Since when the thread is not heard. */
  #disconnectedAt: number | undefined;
  /** When it was closed. Infinity: it was not. */
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

  /** How much of the grace the open pause has used, for a stopwatch that joined then: what cannot be confirmed. */
  unconfirmedPause(joined: number): number {
    const since = this.#disconnectedAt;
    if (since === undefined || this.#last?.seen.paused !== true) return 0;
    return Math.max(since + this.#grace - Math.max(since, joined), 0);
  }

  /** The thread has not been heard any more since then. Says whether waiters must look again. */
  disconnect(now: number, since: number): boolean {
    const wasPaused = this.isPaused(now);
    this.#disconnectedAt ??= Math.max(since, this.#last?.now.at ?? since);
    return wasPaused;
  }

  /** Nothing will be heard any more: from now on the thread counts as running. */
  close(now: number): void {
    this.disconnect(now, now);
    this.#closedAt = now;
  }

  get closed(): boolean {
    return this.#closedAt < Number.POSITIVE_INFINITY;
  }

  /** Takes a state. Says whether waiters must look again: after a resume, and when what was assumed is corrected. */
  apply(now: Now, seen: Seen): boolean {
    const wasAssumed = this.#disconnectedAt !== undefined;
    const wasPaused = this.isPaused(now.at);
    const { pausedTime: uncapped, unsettled } = this.#pausedTimeAt(now, seen);
    const pausedTime = Math.min(uncapped, Math.max(now.at - this.#began, 0));
    this.#disconnectedAt = undefined;
    this.#last = { seen, now, pausedTime, unsettled: seen.paused ? unsettled : 0 };
    return wasAssumed || (wasPaused && !seen.paused);
  }

  /** What is pausedTime with this state, and what the machine slept that may be in the next total. */
  #pausedTimeAt(now: Now, seen: Seen): { pausedTime: number; unsettled: number } {
    const last = this.#last;
    if (last === undefined) return { pausedTime: seen.total, unsettled: 0 };
    if (!isLost(last.seen, seen)) {
      const { credited, unsettled } = awake(last, now, seen.total - last.seen.total);
      return { pausedTime: last.pausedTime + credited, unsettled };
    }
    // A pause was seen until the disconnect; the new total can be in addition to it.
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

/** Whether the server lost `last` before it sent `seen`. */
function isLost(last: Seen, seen: Seen): boolean {
  if (!areComparable(last.version, seen.version)) return true;
  return seen.version.revision < last.version.revision || seen.total < last.total;
}

/**
 * The part of `growth`, paused between `last` and `now`, in which this machine was awake; and what it slept that may be in the
 * next total instead.
 *
 * Paused when last heard of, the thread was mostly paused all the while: then the growth is as long as the time awake and
 * those sleeps that are in it. The combination that comes closest is chosen.
 */
function awake(last: Last, now: Now, growth: number): { credited: number; unsettled: number } {
  const timeAwake = Math.max(now.at - last.now.at, 0);
  const slept = now.slept - last.now.slept;
  const fresh = slept < SHORTEST_SLEEP ? 0 : slept;
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
  // What was known last may have been on its way for some time, which is in the growth too.
  const credited = within > 0 ? growth - within : Math.min(growth, timeAwake + LONGEST_WAY);
  return { credited, unsettled };
}
