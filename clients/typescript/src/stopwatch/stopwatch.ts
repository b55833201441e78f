/**
 * A time limit that stands still while it is paused.
 *
 * A stopwatch checks its state. If there is time left, it sets a timer and checks again when the timer fires. It is not notified when a pause
 * of its thread begins: the check after its timer finds the pause. Only then it waits to be woken.
 *
 * 1. Only a check decides: after any wake-up, the state is read again.
 * 2. It expires only after the coordinator has confirmed, by a request sent after the time ran out, that the thread runs (G1), or after the
 *    coordinator has not answered for the whole grace. Only the limit on wall time ends it without: no pause and no confirmation extends that.
 * 3. An expired stopwatch stays expired; a stopped one never expires.
 */

import type { Clock } from "./clock.js";
import type { EndedBy } from "./ended-by.js";
import { Follows } from "./follows.js";
import { Meter } from "./meter.js";
import type { ThreadClock, Waiter } from "./thread.js";

/** The minimum time for a confirmation that can be requested, however short the grace is. */
const MIN_CONFIRMATION_TIMEOUT_MS = 250;
/**
 * If a check finds later than this that the time ran out, the process was stopped, or the link was dead without notice: nobody could be asked
 * before. Then the confirmation has a time of its own, in which a new stream can be opened.
 */
const LATE_MS = 1_000;
const LATE_CONFIRMATION_TIMEOUT_MS = 2_000;

export class Stopwatch implements Waiter {
  readonly #clock: Clock;
  readonly #meter: Meter;
  readonly #onExpired: () => void;
  readonly #follows: Follows;
  /** When its limit on wall time is over; Infinity: it has none. */
  readonly #wallEnd: number;
  #end: EndedBy | "stopped" | undefined;
  /** The elapsed time when it was stopped or expired. */
  #finalElapsed: number | undefined;
  /** When a check has found that the time ran out. */
  #ranOutNoticed: number | undefined;
  #stopTimer: (() => void) | undefined;

  /**
   * Runs from now on, and stands still while `thread`, its own, is paused. Earlier pauses are not credited. `limitMs`, `maxWallMs` Infinity:
   * there is no such limit.
   *
   * `thread` must be entered before this call: the paused time of a new thread begins when it is entered, and time
   * before that would be charged even if the thread was paused.
   */
  constructor(limitMs: number, maxWallMs: number, thread: ThreadClock, clock: Clock, onExpired: () => void) {
    const now = clock.now();
    this.#clock = clock;
    this.#meter = new Meter(limitMs, now);
    this.#follows = new Follows(now);
    this.#wallEnd = now + maxWallMs;
    this.#onExpired = onExpired;
    this.#follows.add(thread, now);
  }

  /** Starts its checks. */
  start(): void {
    // Not at once: the caller has had no time to add a listener.
    if (this.#clock.now() >= this.#wallEnd) this.#checkAfter(0);
    else this.check();
  }

  get expired(): boolean {
    return this.endedBy !== undefined;
  }

  /** Which limit ended it; `undefined`: it is running, or was stopped. */
  get endedBy(): EndedBy | undefined {
    return this.#end === "stopped" ? undefined : this.#end;
  }

  /** Whether it stands still, because of a pause of its own or of one of its threads. */
  get paused(): boolean {
    return this.#meter.paused || this.#follows.paused(this.#clock.now()).length > 0;
  }

  /** Whether the states of its threads are known, and the connection is up. */
  get linked(): boolean {
    return this.#follows.unlinked.length === 0;
  }

  /** Makes it stand still also while that thread is paused. `enter` returns the thread's clock; called if it is not followed yet. */
  awaitThread(threadId: string, enter: () => ThreadClock): void {
    // The next check, which is already scheduled, finds its pauses.
    if (!this.#follows.awaitAgain(threadId)) this.#follows.add(enter(), this.#clock.now());
  }

  /** Ends one `awaitThread`. Returns whether that was the last one. */
  unawaitThread(threadId: string): boolean {
    const thread = this.#follows.remove(threadId, this.#clock.now());
    thread?.leave(this);
    this.check();
    return thread !== undefined;
  }

  /** Stops observing its threads. */
  close(): void {
    this.#follows.close();
  }

  get elapsedMs(): number {
    return this.#finalElapsed ?? this.#meter.elapsed(...this.#now());
  }

  pause(): void {
    this.#meter.pause(...this.#use());
    this.check();
  }

  resume(): void {
    if (this.#meter.resume(...this.#use())) this.check();
  }

  /** Stops it: it stands still, and never expires. */
  stop(): void {
    this.#end ??= "stopped";
    this.#finalElapsed ??= this.elapsedMs;
    this.#meter.pause(...this.#now());
    this.#stopWaiting();
  }

  /** Reads the state; expires, or schedules the next check. */
  check(): void {
    this.#stopWaiting();
    if (this.#end !== undefined) return;
    const [now, pausedTime] = this.#now();
    if (now >= this.#wallEnd) {
      this.#expire("maxWall");
      return;
    }
    if (this.#meter.paused) {
      this.#checkAfter(Number.POSITIVE_INFINITY);
      return;
    }
    const paused = this.#follows.paused(now);
    if (paused.length > 0) {
      this.#ranOutNoticed = undefined;
      for (const thread of paused) thread.await(this);
      const valid = paused.map(({ validUntil }) => validUntil ?? Number.POSITIVE_INFINITY);
      this.#checkAfter(Math.min(...valid) - now);
      return;
    }
    const left = this.#meter.left(now, pausedTime);
    if (left > 0) {
      this.#ranOutNoticed = undefined;
      // Without a link the state of a thread is only assumed: it may be corrected before the time runs out.
      for (const thread of this.#follows.unlinked) thread.await(this);
      this.#checkAfter(left);
      return;
    }
    this.#confirm(now, now + left);
  }

  /** Requests a confirmation of every thread after the time ran out; expires when all have arrived, or the grace is spent. */
  #confirm(now: number, ranOut: number): void {
    this.#ranOutNoticed ??= now;
    const open = this.#follows.all.filter(({ thread }) => !thread.isConfirmed(ranOut));
    // The grace is one budget, no matter which thread has used it.
    const graceLeft = Math.min(...this.#follows.all.map(({ thread, joinedAt }) => thread.graceLeftMs(joinedAt)));
    const isLate = this.#ranOutNoticed - ranOut > LATE_MS;
    const least = isLate ? this.#ranOutNoticed + LATE_CONFIRMATION_TIMEOUT_MS : ranOut;
    const giveUp = Math.max(ranOut + graceLeft, least, ...open.map(({ thread }) => this.#confirmationDeadline(thread)));
    if (open.length === 0 || now >= giveUp) {
      this.#expire("limit");
      return;
    }
    for (const { thread } of open) thread.awaitConfirmation(this, ranOut);
    this.#checkAfter(giveUp - now);
  }

  /** How long a confirmation is waited for at least. */
  #confirmationDeadline({ threadId, coordinator }: ThreadClock): number {
    if (!coordinator.isOpen) return Number.NEGATIVE_INFINITY;
    return (coordinator.sentAt(threadId) ?? this.#ranOutNoticed ?? 0) + MIN_CONFIRMATION_TIMEOUT_MS;
  }

  #expire(by: EndedBy): void {
    this.#end = by;
    this.#finalElapsed = this.elapsedMs;
    this.#onExpired();
  }

  /** Checks again after `ms`, or at the end of the wall time if that is earlier. `ms` may be Infinity. */
  #checkAfter(ms: number): void {
    const wait = Math.min(ms, Math.max(this.#wallEnd - this.#clock.now(), 0));
    if (wait < Number.POSITIVE_INFINITY) this.#stopTimer = this.#clock.timer(wait, () => this.check());
  }

  #stopWaiting(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#follows.leave(this);
  }

  /** The moment and the paused time for the meter to settle; notes that the paused time is used. */
  #use(): [now: number, pausedTime: number] {
    const [now, pausedTime] = this.#now();
    this.#follows.used(now);
    return [now, pausedTime];
  }

  /** The moment, and the paused time of its threads. */
  #now(): [now: number, pausedTime: number] {
    const now = this.#clock.now();
    return [now, this.#follows.pausedTime(now)];
  }
}
