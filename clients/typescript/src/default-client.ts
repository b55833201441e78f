import { Client } from "./client.js";
import type { TimeoutOptions } from "./stopwatch/timeout.js";

let shared: Client | undefined;

/**
 * `AbortSignal.timeout(ms)`, with a clock that stands still while a thread is paused. For programs with one coordinator. The first call reads
 * the environment and the config file; all calls share one connection. Does not keep the process alive.
 *
 * @throws {ConfigError} The environment or the config file is not valid.
 * @throws {InvalidFieldError} The thread id is not valid, or is given neither here nor as `PAUSEWATCH_THREAD_ID`.
 * @throws {RangeError} `ms` is not a number, or is below 0.
 */
export function pausableTimeout(ms: number, options?: TimeoutOptions): AbortSignal {
  shared ??= Client.fromEnv();
  return shared.pausableTimeout(ms, options);
}
