/**
 * What becomes of the link of a follower, told to the program and logged.
 *
 * 1. Each change is told once, in order. The first loss counts: one grace is for all threads.
 * 2. A client that is closed tells nothing more.
 */
import type { CallError } from "../errors.js";
import type { Log } from "../log.js";
import type { Clock } from "./clock.js";

/** How the timeouts of a client are linked to the coordinator. */
export type Link =
  /** The state of every thread that is followed is known and up to date. */
  | { readonly state: "connected" }
  /**
   * Timeouts go on with the last states that are known. `since`: when the connection was lost; if it was silent for 15 s before, when its last
   * message came.
   */
  | { readonly state: "disconnected"; readonly since: Date; readonly error: CallError }
  /** Disconnected for longer than the disconnect grace: paused threads count as running, and what runs out expires without a confirmation. */
  | { readonly state: "graceSpent"; readonly since: Date; readonly error: CallError };

/** What a follower tells of its link. */
export interface LinkListener {
  connected(): void;
  disconnected(error: CallError, silentForMs: number): void;
  close(): void;
}

export class LinkReporter implements LinkListener {
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #tell: ((link: Link) => void) | undefined;
  #state: Link["state"] | "new" | "closed" = "new";
  #stopTimer: () => void = () => undefined;

  /** `tell`: called soon, and on its own, so that what it throws is the program's. */
  constructor(graceMs: number, clock: Clock, log: Log, tell: ((link: Link) => void) | undefined) {
    this.#graceMs = graceMs;
    this.#clock = clock;
    this.#log = log;
    this.#tell = tell;
  }

  connected(): void {
    if (this.#state === "connected" || this.#state === "closed") return;
    if (this.#state !== "new") this.#log.info("connected to the coordinator again");
    this.#stopTimer();
    this.#become({ state: "connected" });
  }

  disconnected(error: CallError, silentForMs: number): void {
    if (this.#state !== "new" && this.#state !== "connected") return;
    const lost = { since: new Date(Date.now() - silentForMs), error };
    const text = `the coordinator is not heard, timeouts go on with the last known states: ${error.message}`;
    this.#log.warn(text, "PAUSEWATCH_LINK");
    this.#become({ state: "disconnected", ...lost });
    if (this.#graceMs === Number.POSITIVE_INFINITY) return;
    this.#stopTimer = this.#clock.timer(Math.max(this.#graceMs - silentForMs, 0), () => {
      const spent = `the disconnect grace is spent, paused threads count as running: ${error.message}`;
      this.#log.warn(spent, "PAUSEWATCH_LINK");
      this.#become({ state: "graceSpent", ...lost });
    });
  }

  close(): void {
    this.#state = "closed";
    this.#stopTimer();
  }

  #become(link: Link): void {
    this.#state = link.state;
    const tell = this.#tell;
    if (tell !== undefined) queueMicrotask(() => tell(link));
  }
}
