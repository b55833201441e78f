import { Client } from "./client.js";
import type { TimeoutOptions } from "./stopwatch/timeout.js";

let shared: Client | undefined;

/**
 * `AbortSignal.timeout(ms)`, with a clock that stands still while a thread is paused. For programs with one coordinator, which environment
 * and config file name: they are read at the first call, and the connection is shared by all of them. Does not keep the process alive.
 *
 * @throws {ConfigError} Environment or config file are wrong.
 * @throws {InvalidFieldError} No thread can have this id, or none is given, neither here nor as `PAUSEWATCH_THREAD_ID`.
 * @throws {RangeError} `ms` is no number, or below 0.
 */
export function pausableTimeout(ms: number, options?: TimeoutOptions): AbortSignal {
  shared ??= Client.fromEnv();
  return shared.pausableTimeout(ms, options);
}
