/**
 * The log messages of a client, which are not errors of a call. By default, warnings are process warnings.
 *
 * A logger that throws does not affect the code that logs: a warning that it has not taken becomes a process warning.
 */

/** Receives log messages. `console` and most loggers have these methods. */
export interface Logger {
  /** A message for information: the client has reconnected to the coordinator. */
  info(message: string): void;
  /** A problem that does not stop the program. */
  warn(message: string): void;
}

/** The codes of the process warnings. */
type WarningCode = "PAUSEWATCH_CONFIG" | "PAUSEWATCH_HOLD" | "PAUSEWATCH_LINK" | "PAUSEWATCH_TLS" | "PAUSEWATCH_TOKEN";

export class Log {
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  info(message: string): void {
    try {
      this.#logger?.info(`pausewatch: ${message}`);
    } catch {
      // Not worth a process warning.
    }
  }

  warn(message: string, code: WarningCode): void {
    try {
      if (this.#logger !== undefined) {
        this.#logger.warn(`pausewatch: ${message}`);
        return;
      }
    } catch {
      // It becomes a process warning.
    }
    process.emitWarning(message, { code });
  }
}
