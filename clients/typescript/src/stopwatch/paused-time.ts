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
 *    that died in silence was lost with its last message; but a pause with which a stopwatch has joined since counts until then, or it would
 *    be charged for time before. The next state corrects what was assumed, both ways.
 * 3. Another epoch, or a total or a revision that fell, means that the server lost its state (or forgot an idle thread). The new total has
 *    nothing in common with the old one: the paused time so far stays, and grows by the new total, by the time since the last state at most.
 *    A server without epochs sends 0, which is compared by total and revision.
 * 4. An answer may overtake a state that is on its way: a reopened stream shows at least what the one before has told, not what was asked
 *    for meanwhile. Of another epoch, an answer was overtaken if that was the known epoch when the question was put, and a state if the watch
 *    has delivered that epoch on the same stream: the epoch has been left since.
 * 5. Local time does not run while the machine sleeps, the server's may. Of a pause that spans a sleep the sleep is left out, so that it
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

/** How a state came. */
export type Via =
  /** By the watch; `gap`: the first one, or the first one after a break. */
  | { readonly by: "watch"; readonly gap: boolean }
  /** By asking, when `known` was the latest version: linearizable, so a lower one means lost state. */
  | { readonly by: "asking"; readonly known: Version | undefined };

/** The moment, and how long the machine has slept until then. */
export interface Now {
  readonly at: number;
  readonly slept: number;
}

/** Where a stopwatch that joined gets its place: the moment of the first state after it joined, and what was pausedTime then. */
export interface Joined {
  place?: { readonly at: number; readonly pausedTime: number };
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
  /** The latest version that the watch has delivered. */
  #heard: Version | undefined;
  /** When the watch was disconnected, or when the state was last requested instead. */
  #disconnectedAt: number | undefined;
  /** When a stopwatch joined last. */
  #joinedAt: number;
  /** The last join before the disconnect was noticed. */
  #joinedBeforeDisconnect: number;
  #joined: Joined | undefined;

  constructor(now: number, grace: number) {
    this.#began = now;
    this.#grace = grace;
    this.#disconnectedAt = now;
    this.#joinedAt = now;
    this.#joinedBeforeDisconnect = now;
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
    if (this.#disconnectedAt === undefined) return undefined;
    return Math.max(this.#disconnectedAt + this.#grace, this.#joinedBeforeDisconnect);
  }

  get version(): Version | undefined {
    return this.#last?.seen.version;
  }

  /**
   * The paused time at which a stopwatch joins, as far as is known, and where the next state says how much it was then. Even when the link
   * seems to be up: it may be dead without anyone noticing.
   */
  join(now: number): { pausedTime: number; joined: Joined } {
    this.#joinedAt = now;
    this.#joined ??= {};
    return { pausedTime: this.pausedTime(now), joined: this.#joined };
  }

  /** How much of the grace the open pause has used, for a stopwatch that joined then: what cannot be confirmed. */
  unconfirmedPause(joined: number): number {
    const since = this.#disconnectedAt;
    if (since === undefined || this.#last?.seen.paused !== true) return 0;
    return Math.max(since + this.#grace - Math.max(since, joined), 0);
  }

  /** The watch has not been heard any more since then. Says whether waiters must look again. */
  disconnect(now: number, since: number): boolean {
    const wasPaused = this.isPaused(now);
    // An answer may have confirmed the state later.
    if (this.#disconnectedAt === undefined) {
      this.#disconnectedAt = Math.max(since, this.#last?.now.at ?? since);
      this.#joinedBeforeDisconnect = this.#joinedAt;
    }
    return wasPaused;
  }

  /** Takes a state. Says whether waiters must look again: after a resume, and when what was assumed is corrected. */
  apply(now: Now, seen: Seen, via: Via): boolean {
    const stale = this.#isStale(seen, via);
    if (via.by === "watch") this.#heard = seen.version;
    if (stale) return via.by === "watch" && this.#heardAgain(now.at);
    const assumed = this.#disconnectedAt;
    const wasPaused = this.isPaused(now.at);
    const { pausedTime: uncapped, unsettled } = this.#pausedTimeAt(now, seen);
    const pausedTime = Math.min(uncapped, Math.max(now.at - this.#began, 0));
    this.#disconnectedAt = via.by === "watch" || assumed === undefined ? undefined : now.at;
    this.#settleJoined(now.at, pausedTime);
    this.#last = { seen, now, pausedTime, unsettled: seen.paused ? unsettled : 0 };
    return assumed !== undefined || (wasPaused && !seen.paused);
  }

  /** The link is up, and the known state is newer than the last one it delivered. Says whether waiters must look again. */
  #heardAgain(now: number): boolean {
    const wasDisconnected = this.#disconnectedAt !== undefined;
    this.#disconnectedAt = undefined;
    this.#settleJoined(now, this.pausedTime(now));
    return wasDisconnected;
  }

  /** Gives those who joined since the last state their place. */
  #settleJoined(at: number, pausedTime: number): void {
    if (this.#joined === undefined) return;
    this.#joined.place = { at, pausedTime };
    this.#joined = undefined;
  }

  #isStale(seen: Seen, via: Via): boolean {
    const known = this.#last?.seen;
    if (known === undefined) return false;
    const { version } = seen;
    if (!areComparable(version, known.version)) {
      // A new stream: if its state is outdated as well, the end of the stream follows.
      const left = via.by === "asking" ? via.known : via.gap ? undefined : this.#heard;
      return left?.epoch === version.epoch;
    }
    // Revisions rise, and within one pause the total grows.
    if (version.revision > known.version.revision) return false;
    if (version.revision === known.version.revision && seen.total >= known.total) return false;
    const bound = via.by === "asking" ? via.known : via.gap ? this.#heard : undefined;
    return bound === undefined || !areComparable(bound, version) || version.revision >= bound.revision;
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
