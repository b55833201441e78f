/** Where a client says what is no error of a call: by default, warnings are those of the process. */

/** Takes messages in words; `console` is one, and so are most loggers. */
export interface Logger {
  /** What is good to know: the coordinator is heard again. */
  info(message: string): void;
  /** What a program goes on with although it is not as it should be. */
  warn(message: string): void;
}

/** What a warning of the process is found by. */
type WarningCode = "PAUSEWATCH_HOLD" | "PAUSEWATCH_LINK" | "PAUSEWATCH_TOKEN";

export class Log {
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  info(message: string): void {
    this.#logger?.info(`pausewatch: ${message}`);
  }

  warn(message: string, code: WarningCode): void {
    if (this.#logger === undefined) process.emitWarning(message, { code });
    else this.#logger.warn(`pausewatch: ${message}`);
  }
}
