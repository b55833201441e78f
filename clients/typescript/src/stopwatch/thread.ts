/**
 * One thread, shared by its stopwatches: its paused time, the waiters for its changes, and the confirmation before an expiry.
 *
 * 1. A change corrects the assumptions of its stopwatches without waking them. Only a resume, a disconnect and a reconnect wake waiters, and
 *    only those that wait for the thread, not those that wait for a timer.
 * 2. A confirmation counts for a stopwatch only if it was requested after its time ran out: an earlier one may have missed an increment that
 *    was acknowledged since (G1).
 * 3. A disconnect wakes the waiters for a confirmation too: the request is lost with the stream.
 */
import type { PauseState } from "../messages.js";
import { versionOf } from "../version.js";
import type { WatchStream } from "../watch/stream.js";
import type { Clock } from "./clock.js";
import { PausedTimeTracker } from "./paused-time.js";

/** The part of a stream that requests confirmations. */
export type Coordinator = Pick<WatchStream, "isOpen" | "confirm" | "cancelConfirmation" | "sentAt">;

/** Is woken to check its state again. */
export interface Waiter {
  check(): void;
}

/** Has computed with the paused time of a thread. */
export interface Observer {
  /** Called before a disconnect, and after a state is applied: the thread's state is exactly known until `now`. */
  settle(now: number): void;
  /** Called after a state or a disconnect of the thread. `pausedFor`: how long the open pause of the state has lasted. */
  correct(threadId: string, now: number, pausedFor: number): void;
}

export class ThreadClock {
  readonly threadId: string;
  readonly coordinator: Coordinator;
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #tracker: PausedTimeTracker;
  /** Woken when the thread resumes or its link changes. */
  readonly #waitingForChange = new Set<Waiter>();
  /** Woken when a confirmation arrives or is lost. */
  readonly #waitingForConfirmation = new Set<Waiter>();
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
   * How long a stopwatch that has run out may wait for a confirmation. The grace is one budget: an unconfirmed pause since the stopwatch joined
   * has used some of it.
   */
  graceLeftMs(joined: number): number {
    return this.#graceMs - this.#tracker.unconfirmedPause(joined);
  }

  /** Whether the thread's state is known and its watch is connected. */
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
   * When a pause that cannot be confirmed stops counting; `undefined`: the link is up. Also set for a running thread, whose paused time is not
   * certain without a link.
   */
  get validUntil(): number | undefined {
    return this.#tracker.validUntil;
  }

  /** Notes that the watch is disconnected; its last message arrived `silentForMs` ago. */
  disconnect(silentForMs = 0): void {
    const now = this.#clock.now();
    for (const observer of this.#observers) observer.settle(now - silentForMs);
    const mustCheck = this.#tracker.disconnect(now, now - silentForMs);
    for (const observer of this.#observers) observer.correct(this.threadId, now, 0);
    if (mustCheck) wake(this.#waitingForChange);
    wake(this.#waitingForConfirmation);
  }

  /** Applies a state. */
  apply(state: PauseState): void {
    const now = { at: this.#clock.now(), slept: this.#clock.slept() };
    // A coordinator never sends a negative total; it would credit nothing.
    const seen = { version: versionOf(state), paused: state.paused, total: Math.max(state.pausedTotalMs, 0) };
    const mustCheck = this.#tracker.apply(now, seen);
    for (const observer of this.#observers) observer.correct(this.threadId, now.at, state.pausedForMs ?? 0);
    for (const observer of this.#observers) observer.settle(now.at);
    if (mustCheck) wake(this.#waitingForChange);
  }

  /** Applies a confirmation that was sent at `sentAt`. `isWatched`: whether changes will follow. */
  confirm(state: PauseState, sentAt: number, isWatched: boolean): void {
    this.#confirmedSince = sentAt;
    this.apply(state);
    if (isWatched) wake(this.#waitingForConfirmation);
    else this.disconnect();
  }

  /** Notes that the client is closed: from now on the thread counts as running, without a confirmation. */
  close(): void {
    const now = this.#clock.now();
    for (const observer of this.#observers) observer.settle(now);
    this.#tracker.close(now);
    for (const observer of this.#observers) observer.correct(this.threadId, now, 0);
    wake(this.#waitingForChange);
    wake(this.#waitingForConfirmation);
  }

  /** Calls `observer` at every change from now on. */
  observe(observer: Observer): void {
    this.#observers.add(observer);
  }

  ignore(observer: Observer): void {
    this.#observers.delete(observer);
  }

  /** Wakes `waiter` once, when the thread resumes or its link changes. */
  await(waiter: Waiter): void {
    this.#waitingForChange.add(waiter);
  }

  /** Whether a confirmation that was requested at `since` or later has arrived, or the client is closed. */
  isConfirmed(since: number): boolean {
    return this.#tracker.closed || this.#confirmedSince >= since;
  }

  /** Requests a confirmation at `since` or later, and wakes `waiter` once, when one arrives or is lost. */
  awaitConfirmation(waiter: Waiter, since: number): void {
    this.#waitingForConfirmation.add(waiter);
    this.coordinator.confirm(this.threadId, since);
  }

  leave(waiter: Waiter): void {
    this.#waitingForChange.delete(waiter);
    this.#waitingForConfirmation.delete(waiter);
    if (this.#waitingForConfirmation.size === 0) this.coordinator.cancelConfirmation(this.threadId);
  }
}

/** Wakes each waiter once, except those that begin to wait during this call. */
function wake(waiters: Set<Waiter>): void {
  const woken = [...waiters];
  waiters.clear();
  for (const waiter of woken) waiter.check();
}
