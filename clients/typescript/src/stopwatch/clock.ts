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
  slept:
    process.platform === "linux"
      ? () =>
          difference(
            () => performance.now(),
            () => uptime() * 1_000,
          )
      : () => 0,
  timer: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(Math.ceil(ms), MAX_TIMER_MS)).unref();
    return () => clearTimeout(timer);
  },
};

/** An interruption between the readings of two clocks that is this long could be taken for a sleep. */
const LONGEST_READING_MS = 10;

/**
 * How far `withSleep` is ahead of `awake`. The clocks are read again after an interruption; on a machine that is too busy for that, the
 * shortest of 100 readings counts.
 */
export function difference(awake: () => number, withSleep: () => number): number {
  let [shortest, ahead] = [Number.POSITIVE_INFINITY, 0];
  for (let reading = 0; reading < 100 && shortest >= LONGEST_READING_MS; reading++) {
    const [before, at, after] = [awake(), withSleep(), awake()];
    if (after - before < shortest) [shortest, ahead] = [after - before, at - after];
  }
  return ahead;
}
