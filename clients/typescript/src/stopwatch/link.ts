/**
 * Reports the changes of a follower's link to the program, and logs them.
 *
 * 1. Each change is reported once, in order. The grace begins with the first disconnect: there is one for all threads.
 * 2. After the client is closed nothing is reported.
 */
import type { CallError } from "../errors.js";
import type { Log } from "../log.js";
import type { Clock } from "./clock.js";

/** The state of the link between the timeouts of a client and the coordinator. */
export type Link =
  /** The state of every followed thread is known and up to date, except of threads that the coordinator refuses; a refusal is logged. */
  | { readonly state: "connected" }
  /**
   * The state of at least one thread may be out of date: timeouts continue with the last known states. `since`: when the connection was lost;
   * if it was silent for 15 s before, when its last message arrived.
   */
  | { readonly state: "disconnected"; readonly since: Date; readonly error: CallError }
  /**
   * Disconnected for longer than the disconnect grace: paused threads count as running, and timeouts that run out expire without a
   * confirmation.
   */
  | { readonly state: "graceSpent"; readonly since: Date; readonly error: CallError };

export class LinkReporter {
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #onLink: ((link: Link) => void) | undefined;
  #state: Link["state"] | "new" | "closed" = "new";
  #stopTimer: () => void = () => undefined;

  /** `onLink`: called soon, in a microtask of its own, so that its errors are uncaught errors of the program. */
  constructor(graceMs: number, clock: Clock, log: Log, onLink: ((link: Link) => void) | undefined) {
    this.#graceMs = graceMs;
    this.#clock = clock;
    this.#log = log;
    this.#onLink = onLink;
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
    const text = `the coordinator is unreachable, timeouts continue with the last known states: ${error.message}`;
    this.#log.warn(text, "PAUSEWATCH_LINK");
    this.#become({ state: "disconnected", ...lost });
    if (this.#graceMs === Number.POSITIVE_INFINITY) return;
    this.#stopTimer = this.#clock.timer(Math.max(this.#graceMs - silentForMs, 0), () => {
      const spent = `the disconnect grace is spent, paused threads count as running: ${error.message}`;
      this.#log.warn(spent, "PAUSEWATCH_LINK");
      this.#become({ state: "graceSpent", ...lost });
    });
  }

  /** A thread is not watched; the stream of the others continues. */
  refused(error: CallError): void {
    const text = `a thread is not watched, its timeouts run without its pauses: ${error.message}`;
    this.#log.warn(text, "PAUSEWATCH_LINK");
  }

  close(): void {
    this.#state = "closed";
    this.#stopTimer();
  }

  #become(link: Link): void {
    this.#state = link.state;
    const onLink = this.#onLink;
    if (onLink !== undefined) queueMicrotask(() => onLink(link));
  }
}
