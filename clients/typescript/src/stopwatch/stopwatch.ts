/**
 * A limit on time that does not run while it is paused.
 *
 * Waiting is looking: if there is time left, set a timer and look again. Nothing needs to tell a stopwatch that a pause of its thread began:
 * the look after its timer finds it. Only then, standing still, does it wait to be told.
 *
 * 1. Nothing but a look decides: after any wake-up, the state is read again.
 * 2. It expires only after the coordinator, asked once more after the time ran out, confirmed that the thread runs (G1), or when it has not
 *    answered for the whole grace. Only its limit on wall time ends it without: no pause and no question extends that.
 * 3. Expired is for ever; stopped is for ever too, and is never followed by expired.
 */

import type { Clock } from "./clock.js";
import type { EndedBy } from "./ended-by.js";
import { Follows } from "./follows.js";
import { Meter } from "./meter.js";
import type { ThreadClock, Waiter } from "./thread.js";

/** However short the grace is, a confirmation that can be requested gets this much time. */
const SHORTEST_ASK_MS = 250;

export class Stopwatch implements Waiter {
  readonly #clock: Clock;
  readonly #meter: Meter;
  readonly #onExpired: () => void;
  readonly #follows: Follows;
  /** When its limit on wall time is over; Infinity: it has none. */
  readonly #wallEnd: number;
  #over: EndedBy | "stopped" | undefined;
  /** What was elapsed when it was stopped. */
  #final: number | undefined;
  /** When a look has found that the time is out. */
  #ranOutSeen: number | undefined;
  #stopTimer: (() => void) | undefined;

  /** Runs from now on. `limitMs`, `maxWallMs`: Infinity for none. */
  constructor(limitMs: number, maxWallMs: number, clock: Clock, onExpired: () => void) {
    const now = clock.now();
    this.#clock = clock;
    this.#meter = new Meter(limitMs, now);
    this.#follows = new Follows(now);
    this.#wallEnd = now + maxWallMs;
    this.#onExpired = onExpired;
  }

  /** Follows `thread`, its own, from now on, and begins to look. Pauses before that are not credited. */
  follow(thread: ThreadClock): void {
    const now = this.#clock.now();
    this.#follows.add(thread, now);
    // Not at once: who started it could not listen yet.
    if (now >= this.#wallEnd) this.#lookAfter(0);
    else this.look();
  }

  get expired(): boolean {
    return this.endedBy !== undefined;
  }

  /** Which limit ended it; `undefined`: it runs, or was stopped. */
  get endedBy(): EndedBy | undefined {
    return this.#over === "stopped" ? undefined : this.#over;
  }

  /** Whether it stands still, by a pause of its own or of one of its threads. */
  get paused(): boolean {
    return this.#meter.paused || this.#follows.paused(this.#clock.now()).length > 0;
  }

  /** Whether the state of its threads is known, and the coordinator is heard. */
  get linked(): boolean {
    return this.#follows.unlinked.length === 0;
  }

  /** Stands still while that thread is paused too. `enter` gets its clock, if it is not followed yet. */
  awaitThread(threadId: string, enter: () => ThreadClock): void {
    // The look that is to come finds it.
    if (!this.#follows.again(threadId)) this.#follows.add(enter(), this.#clock.now());
  }

  /** Ends one `awaitThread`. Says whether that was the last one. */
  unawaitThread(threadId: string): boolean {
    const thread = this.#follows.remove(threadId, this.#clock.now());
    thread?.leave(this);
    this.look();
    return thread !== undefined;
  }

  /** Nothing of its threads concerns it any more. */
  close(): void {
    this.#follows.close();
  }

  get elapsedMs(): number {
    return this.#final ?? this.#meter.elapsed(...this.#now());
  }

  pause(): void {
    this.#meter.pause(...this.#use());
    this.look();
  }

  resume(): void {
    if (this.#meter.resume(...this.#use())) this.look();
  }

  /** Ends it: it stands still, and never expires. */
  stop(): void {
    this.#over ??= "stopped";
    this.#final ??= this.elapsedMs;
    this.#meter.pause(...this.#now());
    this.#rest();
  }

  /** Reads the state, and sees to it that whatever may change it next leads to another look. */
  look(): void {
    this.#rest();
    if (this.#over !== undefined) return;
    const [now, pausedTime] = this.#now();
    if (now >= this.#wallEnd) {
      this.#expire("maxWall");
      return;
    }
    if (this.#meter.paused) {
      this.#lookAfter(Number.POSITIVE_INFINITY);
      return;
    }
    const paused = this.#follows.paused(now);
    if (paused.length > 0) {
      this.#ranOutSeen = undefined;
      for (const thread of paused) thread.await(this);
      const valid = paused.map(({ validUntil }) => validUntil ?? Number.POSITIVE_INFINITY);
      this.#lookAfter(Math.min(...valid) - now);
      return;
    }
    const left = this.#meter.left(now, pausedTime);
    if (left > 0) {
      this.#ranOutSeen = undefined;
      // What is known of a thread that is not heard is only assumed: it may be corrected before the time is out.
      for (const thread of this.#follows.unlinked) thread.await(this);
      this.#lookAfter(left);
      return;
    }
    this.#confirm(now, now + left);
  }

  /** Sees to it that every thread is confirmed, and expires when that is settled. */
  #confirm(now: number, ranOut: number): void {
    this.#ranOutSeen ??= now;
    const open = this.#follows.all.filter(({ thread }) => !thread.isConfirmed(ranOut));
    // The grace is one budget, whichever thread has used it.
    const graceLeft = Math.min(...this.#follows.all.map(({ thread, joinedAt }) => thread.graceLeftMs(joinedAt)));
    const giveUp = Math.max(ranOut + graceLeft, ...open.map(({ thread }) => this.#leastWait(thread)));
    if (open.length === 0 || now >= giveUp) {
      this.#expire("limit");
      return;
    }
    for (const { thread } of open) thread.awaitConfirmation(this, ranOut);
    this.#lookAfter(giveUp - now);
  }

  /** Until when a confirmation is waited for at least. */
  #leastWait({ threadId, coordinator }: ThreadClock): number {
    if (!coordinator.isOpen) return Number.NEGATIVE_INFINITY;
    return (coordinator.sentAt(threadId) ?? this.#ranOutSeen ?? 0) + SHORTEST_ASK_MS;
  }

  #expire(by: EndedBy): void {
    this.#over = by;
    this.#onExpired();
  }

  /** Infinity: never. At the end of the wall time it looks at the latest. */
  #lookAfter(ms: number): void {
    const wait = Math.min(ms, Math.max(this.#wallEnd - this.#clock.now(), 0));
    if (wait < Number.POSITIVE_INFINITY) this.#stopTimer = this.#clock.timer(wait, () => this.look());
  }

  #rest(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#follows.leave(this);
  }

  /** What the meter is to settle. */
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
