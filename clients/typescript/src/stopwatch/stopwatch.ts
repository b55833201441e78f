/**
 * A limit on time that does not run while it is paused.
 *
 * Waiting is looking: if there is time left, set a timer and look again. Nothing needs to tell a stopwatch that a pause of its thread began:
 * the look after its timer finds it. Only then, standing still, does it wait to be told.
 *
 * 1. Nothing but a look decides: after any wake-up, the state is read again.
 * 2. It expires only after the coordinator, asked once more after the time ran out, said that the thread runs (G1), or when it could not be
 *    asked for the whole grace.
 * 3. Expired is for ever; stopped is for ever too, and is never followed by expired.
 */
import type { Clock } from "./clock.js";
import { Meter } from "./meter.js";
import type { Joined } from "./paused-time.js";
import type { ThreadClock, Waiter } from "./thread.js";

/** Between two questions to a coordinator that cannot be asked; up to twice as long, at random. */
const ASK_AGAIN_MS = 500;
/** However short the grace is, a question gets this much time. */
const SHORTEST_ASK_MS = 250;

export class Stopwatch implements Waiter {
  readonly #clock: Clock;
  readonly #meter: Meter;
  readonly #onExpired: () => void;
  #thread: ThreadClock | undefined;
  /** Where it finds its place on the thread; `undefined`: it has, or there is none. */
  #joined: Joined | undefined;
  #joinedAt = 0;
  #over: "expired" | "stopped" | undefined;
  /** What was elapsed when it was stopped. */
  #final: number | undefined;
  #stopTimer: (() => void) | undefined;

  /** Runs from now on. `limitMs`: Infinity for none. */
  constructor(limitMs: number, clock: Clock, onExpired: () => void) {
    this.#clock = clock;
    this.#meter = new Meter(limitMs, clock.now());
    this.#onExpired = onExpired;
  }

  /** Follows `thread` from now on, and begins to look. Pauses before that are not credited. */
  follow(thread: ThreadClock): void {
    const now = this.#clock.now();
    const { pausedTime, joined } = thread.join(now);
    this.#meter.follow(now, 0, pausedTime);
    this.#thread = thread;
    this.#joined = joined;
    this.#joinedAt = now;
    this.look();
  }

  get expired(): boolean {
    return this.#over === "expired";
  }

  /** Whether it stands still, by a pause of its own or of its thread. */
  get paused(): boolean {
    return this.#meter.paused || (this.#thread?.isPaused(this.#clock.now()) ?? false);
  }

  get elapsedMs(): number {
    return this.#final ?? this.#meter.elapsed(...this.#now());
  }

  pause(): void {
    this.#meter.pause(...this.#now());
    this.look();
  }

  resume(): void {
    if (this.#meter.resume(...this.#now())) this.look();
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
    if (this.#meter.paused) return;
    const thread = this.#thread;
    const validUntil = thread?.validUntil;
    if (thread?.isPaused(now)) {
      thread.await(this);
      if (validUntil !== undefined) this.#lookAfter(validUntil - now);
      return;
    }
    const left = this.#meter.left(now, pausedTime);
    if (left > 0) {
      // What is known of the thread is only assumed: it may be corrected before the time is out.
      if (validUntil !== undefined) thread?.await(this);
      if (left < Number.POSITIVE_INFINITY) this.#lookAfter(left);
      return;
    }
    if (thread === undefined) this.#expire();
    else this.#confirm(thread, now, now + left);
  }

  /** Sees to it that the coordinator is asked, and expires when that is settled. */
  #confirm(thread: ThreadClock, now: number, ranOut: number): void {
    const giveUp = ranOut + thread.graceLeftMs(this.#joinedAt);
    const asked = thread.asked(ranOut);
    if (asked.is === "notYet") {
      thread.ask(ranOut);
      thread.awaitAnswer(this);
      this.#lookAfter(Math.max(giveUp - now, SHORTEST_ASK_MS));
      return;
    }
    const patient = asked.is === "underWay" && !asked.failed;
    const enough = patient ? Math.max(giveUp, asked.began + SHORTEST_ASK_MS) : giveUp;
    if (asked.is === "answered" || now >= enough) {
      this.#expire();
    } else if (asked.is === "underWay") {
      thread.awaitAnswer(this);
      this.#lookAfter(enough - now);
    } else {
      const pause = ASK_AGAIN_MS * (1 + Math.random());
      this.#after(Math.min(pause, giveUp - now), () => {
        if (this.#clock.now() < giveUp) thread.ask(ranOut);
        this.look();
      });
    }
  }

  #expire(): void {
    this.#over = "expired";
    this.#onExpired();
  }

  #lookAfter(ms: number): void {
    this.#after(ms, () => this.look());
  }

  #after(ms: number, action: () => void): void {
    this.#stopTimer = this.#clock.timer(ms, action);
  }

  #rest(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#thread?.leave(this);
  }

  /** The moment, and the thread's paused time; afterwards the meter has its place. */
  #now(): [now: number, pausedTime: number] {
    const place = this.#joined?.place;
    if (place !== undefined) {
      this.#joined = undefined;
      this.#meter.place(place.at, place.pausedTime);
    }
    const now = this.#clock.now();
    return [now, this.#thread?.pausedTime(now) ?? 0];
  }
}
