/**
 * One thread as its stopwatches share it: its paused time, who waits for a change of it, and the question to the coordinator that comes before an
 * expiry.
 *
 * 1. Pausing changes one record and wakes no task (only the union of a stopwatch that awaits other threads is settled). Only a resume, a break and its end wake the waiters, and only those who wait for the
 *    thread; who waits for a timer is not among them.
 * 2. At most one call per thread is in flight at a time. An answer counts for a stopwatch only if the question began after its time
 *    ran out: an earlier one may have missed an increment that was acknowledged since (G1).
 * 3. A question is answered also when the one who asked has gone.
 */
import type { PauseState } from "../messages.js";
import { versionOf } from "../version.js";
import type { Clock } from "./clock.js";
import { type Joined, PausedTimeTracker, type Via } from "./paused-time.js";

/** How to ask, and how long to be patient; the same for all threads of a follower. */
export interface Coordinator {
  /** Rejects if there is no answer. */
  ask(threadId: string): Promise<PauseState>;
  /** How long what cannot be confirmed counts. */
  readonly graceMs: number;
}

/** What is known about a question that began at some moment or later. */
export type Asked =
  | { readonly is: "answered" | "failed" }
  /** It began then and is not over; `failed`: one before it failed. */
  | { readonly is: "underWay"; readonly began: number; readonly failed: boolean }
  | { readonly is: "notYet" };

/** Who waits to be told that it must look again. */
export interface Waiter {
  look(): void;
}

/** Who settles at every change, before anybody looks. */
export interface Observer {
  settle(now: number): void;
}

export class ThreadClock {
  readonly threadId: string;
  readonly #coordinator: Coordinator;
  readonly #clock: Clock;
  readonly #tracker: PausedTimeTracker;
  /** Told when the thread changes. */
  readonly #waiting = new Set<Waiter>();
  /** Told when a question was answered, or failed. */
  readonly #asking = new Set<Waiter>();
  readonly #observers = new Set<Observer>();
  /** When the question under way began. */
  #underWay: number | undefined;
  /** It began too early for somebody. */
  #again = false;
  /** When the last question that is over began, and whether it was answered. */
  #last: { readonly began: number; readonly answered: boolean } | undefined;

  constructor(threadId: string, coordinator: Coordinator, clock: Clock) {
    this.threadId = threadId;
    this.#coordinator = coordinator;
    this.#clock = clock;
    this.#tracker = new PausedTimeTracker(clock.now(), coordinator.graceMs);
  }

  /**
   * How long a stopwatch that has run out may wait for an answer. The grace is one budget: a pause that could not be confirmed has used some
   * of it, since the stopwatch joined.
   */
  graceLeftMs(joined: number): number {
    return this.#coordinator.graceMs - this.#tracker.unconfirmedPause(joined);
  }

  /** The thread's state is known, and the watch is heard. */
  get linked(): boolean {
    return this.#tracker.validUntil === undefined;
  }

  /** The paused time so far. */
  pausedTime(now: number): number {
    return this.#tracker.pausedTime(now);
  }

  isPaused(now: number): boolean {
    return this.#tracker.isPaused(now);
  }

  /**
   * Until when what is assumed counts, if it cannot be confirmed. Also of a running thread: its paused time is not certain then.
   */
  get validUntil(): number | undefined {
    return this.#tracker.validUntil;
  }

  join(now: number): { pausedTime: number; joined: Joined } {
    return this.#tracker.join(now);
  }

  /** The watch has not been heard any more for so long. */
  disconnect(silentForMs = 0): void {
    const now = this.#clock.now();
    // Until then it was exact.
    this.#settle(now - silentForMs);
    if (this.#tracker.disconnect(now, now - silentForMs)) wake(this.#waiting);
  }

  /** Takes a state. */
  apply(state: PauseState, via: Via): void {
    const now = { at: this.#clock.now(), slept: this.#clock.slept() };
    // A negative total is no server of ours; it credits nothing.
    const seen = { version: versionOf(state), paused: state.paused, total: Math.max(state.pausedTotalMs, 0) };
    const mustLook = this.#tracker.apply(now, seen, via);
    this.#settle(now.at);
    if (mustLook) wake(this.#waiting);
  }

  /** `observer` settles at every change from now on. */
  observe(observer: Observer): void {
    this.#observers.add(observer);
  }

  ignore(observer: Observer): void {
    this.#observers.delete(observer);
  }

  #settle(now: number): void {
    for (const observer of this.#observers) observer.settle(now);
  }

  /** `waiter` looks once, after the next change of the thread that it must know of. */
  await(waiter: Waiter): void {
    this.#waiting.add(waiter);
  }

  /** `waiter` looks once, after the end of the question under way. */
  awaitAnswer(waiter: Waiter): void {
    this.#asking.add(waiter);
  }

  leave(waiter: Waiter): void {
    this.#waiting.delete(waiter);
    this.#asking.delete(waiter);
  }

  /** What became of a question that began at `since` or later. */
  asked(since: number): Asked {
    const last = this.#last !== undefined && this.#last.began >= since ? this.#last : undefined;
    if (last?.answered) return { is: "answered" };
    if (this.#underWay !== undefined && this.#underWay >= since) {
      return { is: "underWay", began: this.#underWay, failed: last !== undefined };
    }
    return { is: last === undefined ? "notYet" : "failed" };
  }

  /** Asks the coordinator, unless a question that began at `since` or later is under way. */
  ask(since: number): void {
    if (this.#underWay === undefined) void this.#put();
    else if (this.#underWay < since) this.#again = true;
  }

  async #put(): Promise<void> {
    this.#underWay = this.#clock.now();
    while (this.#underWay !== undefined) {
      const began: number = this.#underWay;
      const known = this.#tracker.version;
      const state = await this.#coordinator.ask(this.threadId).catch(() => undefined);
      if (state !== undefined) this.apply(state, { by: "asking", known });
      this.#last = { began, answered: state !== undefined };
      const again = this.#again;
      this.#again = false;
      this.#underWay = again ? this.#clock.now() : undefined;
      wake(this.#asking);
      if (!again) return;
    }
  }
}

/** Each of them once, and not those who begin to wait because of it. */
function wake(waiters: Set<Waiter>): void {
  const woken = [...waiters];
  waiters.clear();
  for (const waiter of woken) waiter.look();
}
