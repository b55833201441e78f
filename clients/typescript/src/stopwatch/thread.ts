/**
 * One thread as its stopwatches share it: its paused time, who waits for a change of it, and the confirmation that comes before an expiry.
 *
 * 1. A change corrects what its stopwatches have assumed, and wakes none of them. Only a resume, a break and its end wake the waiters, and only
 *    those who wait for the thread; who waits for a timer is not among them.
 * 2. A confirmation counts for a stopwatch only if it was requested after its time ran out: an earlier one may have missed an increment that
 *    was acknowledged since (G1).
 * 3. Who waits for a confirmation looks at every break too: what was requested is lost with the stream.
 */
import type { PauseState } from "../messages.js";
import { versionOf } from "../version.js";
import type { WatchStream } from "../watch/stream.js";
import type { Clock } from "./clock.js";
import { PausedTimeTracker } from "./paused-time.js";

/** How to ask: the part of a stream that a thread needs. */
export type Coordinator = Pick<WatchStream, "isOpen" | "confirm" | "forget" | "sentAt">;

/** Who waits to be told that it must look again. */
export interface Waiter {
  look(): void;
}

/** Who has assumed something of a thread. */
export interface Observer {
  /** Before a break: until then all was as it is known. After a state: all is as it is known. */
  settle(now: number): void;
  /** After a state or a break. */
  correct(now: number): void;
}

export class ThreadClock {
  readonly threadId: string;
  readonly coordinator: Coordinator;
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #tracker: PausedTimeTracker;
  /** Told when the thread changes. */
  readonly #waiting = new Set<Waiter>();
  /** Told when a confirmation has come, or is lost. */
  readonly #asking = new Set<Waiter>();
  readonly #observers = new Set<Observer>();
  /** When the latest confirmation was requested. */
  #confirmedSince = Number.NEGATIVE_INFINITY;

  constructor(threadId: string, coordinator: Coordinator, graceMs: number, clock: Clock) {
    this.threadId = threadId;
    this.coordinator = coordinator;
    this.#graceMs = graceMs;
    this.#clock = clock;
    this.#tracker = new PausedTimeTracker(clock.now(), graceMs);
  }

  /**
   * How long a stopwatch that has run out may wait for an answer. The grace is one budget: a pause that could not be confirmed has used some
   * of it, since the stopwatch joined.
   */
  graceLeftMs(joined: number): number {
    return this.#graceMs - this.#tracker.unconfirmedPause(joined);
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

  /** The watch has not been heard any more for so long. */
  disconnect(silentForMs = 0): void {
    const now = this.#clock.now();
    for (const observer of this.#observers) observer.settle(now - silentForMs);
    const mustLook = this.#tracker.disconnect(now, now - silentForMs);
    for (const observer of this.#observers) observer.correct(now);
    if (mustLook) wake(this.#waiting);
    wake(this.#asking);
  }

  /** Takes a state. */
  apply(state: PauseState): void {
    const now = { at: this.#clock.now(), slept: this.#clock.slept() };
    // A negative total is no server of ours; it credits nothing.
    const seen = { version: versionOf(state), paused: state.paused, total: Math.max(state.pausedTotalMs, 0) };
    const mustLook = this.#tracker.apply(now, seen);
    for (const observer of this.#observers) observer.correct(now.at);
    for (const observer of this.#observers) observer.settle(now.at);
    if (mustLook) wake(this.#waiting);
  }

  /** Takes the state that was asked for at `sentAt`. `isWatched`: changes of it will come. */
  confirm(state: PauseState, sentAt: number, isWatched: boolean): void {
    this.#confirmedSince = sentAt;
    this.apply(state);
    if (isWatched) wake(this.#asking);
    else this.disconnect();
  }

  /** The client is closed: from now on the thread counts as running, and that needs no confirmation. */
  close(): void {
    const now = this.#clock.now();
    for (const observer of this.#observers) observer.settle(now);
    this.#tracker.close(now);
    for (const observer of this.#observers) observer.correct(now);
    wake(this.#waiting);
    wake(this.#asking);
  }

  /** `observer` is told of every change from now on. */
  observe(observer: Observer): void {
    this.#observers.add(observer);
  }

  ignore(observer: Observer): void {
    this.#observers.delete(observer);
  }

  /** `waiter` looks once, after the next change of the thread that it must know of. */
  await(waiter: Waiter): void {
    this.#waiting.add(waiter);
  }

  /** Whether a confirmation has come that was requested at `since` or later, or nobody can be asked any more. */
  isConfirmed(since: number): boolean {
    return this.#tracker.closed || this.#confirmedSince >= since;
  }

  /** Asks for a confirmation of `since` or later; `waiter` looks once, when one has come or is lost. */
  awaitConfirmation(waiter: Waiter, since: number): void {
    this.#asking.add(waiter);
    this.coordinator.confirm(this.threadId, since);
  }

  leave(waiter: Waiter): void {
    this.#waiting.delete(waiter);
    this.#asking.delete(waiter);
    if (this.#asking.size === 0) this.coordinator.forget(this.threadId);
  }
}

/** Each of them once, and not those who begin to wait because of it. */
function wake(waiters: Set<Waiter>): void {
  const woken = [...waiters];
  waiters.clear();
  for (const waiter of woken) waiter.look();
}
