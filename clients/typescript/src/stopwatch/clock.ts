/** The only file of this folder that reads time and sets timers, so that tests can use a manual clock. All times are milliseconds. */
import { uptime } from "node:os";
import { performance } from "node:perf_hooks";

export interface Clock {
  /** A monotonic clock that stands still while the machine sleeps. */
  now(): number;
  /** How long the machine has slept (suspend, hibernation) since some moment in the past, exact to about 10 ms. */
  slept(): number;
  /** Calls `callback` once, not before `ms` from now. Returns a function that cancels it. Does not keep the process alive. */
  timer(ms: number, callback: () => void): () => void;
}

/** For a longer time, Node's timers would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * The clock of this process. On Linux, the uptime includes sleep and `performance.now()` does not. Elsewhere the difference is not known: the
 * sleep within a pause is credited too, up to the time that was charged.
 */
export const systemClock: Clock = {
  now: () => performance.now(),
  slept: process.platform === "linux" ? () => uptime() * 1_000 - performance.now() : () => 0,
  timer: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(Math.ceil(ms), MAX_TIMER_MS)).unref();
    return () => clearTimeout(timer);
  },
};
