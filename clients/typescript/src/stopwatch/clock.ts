/** The only place of this folder that reads time and sets timers, so that tests can move it. All times are milliseconds. */
import { uptime } from "node:os";
import { performance } from "node:perf_hooks";

export interface Clock {
  /** A monotonic clock that stands still while the machine sleeps. */
  now(): number;
  /** How long the machine has slept (suspend, hibernation) since some moment in the past, to some 10 ms. */
  slept(): number;
  /** Calls back once, not before `ms` from now, and returns what stops that. Does not keep the process alive. */
  timer(ms: number, callback: () => void): () => void;
}

/** Node's timers fire at once for more than this. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * The clock of this process. On Linux, the uptime counts sleep and `performance.now()` does not. Elsewhere the difference is not known: a
 * pause that spans a sleep is credited whole, up to the time that was charged.
 */
export const systemClock: Clock = {
  now: () => performance.now(),
  slept: process.platform === "linux" ? () => uptime() * 1_000 - performance.now() : () => 0,
  timer: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(Math.ceil(ms), LONGEST_TIMER_MS)).unref();
    return () => clearTimeout(timer);
  },
};
