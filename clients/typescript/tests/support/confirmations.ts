/**
 * A stream on which a test decides when a thread is confirmed; confirmations that are requested meanwhile are sent
 * after that.
 */
import type { PauseState } from "../../src/messages.js";
import type { Clock } from "../../src/stopwatch/clock.js";
import type { Coordinator, ThreadClock } from "../../src/stopwatch/thread.js";

export class Confirmations implements Coordinator {
  isOpen = true;
  readonly #clock: Clock;
  /** When the confirmations that are under way were sent. */
  readonly #sent = new Map<string, number>();
  readonly #waiting = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The threads whose confirmation is under way. */
  get asked(): string[] {
    return [...this.#sent.keys()].sort();
  }

  confirm(threadId: string, since: number): void {
    const sentAt = this.#sent.get(threadId);
    if (sentAt === undefined) {
      if (this.isOpen) this.#sent.set(threadId, this.#clock.now());
    } else if (sentAt < since) {
      this.#waiting.add(threadId);
    }
  }

  cancelConfirmation(threadId: string): void {
    this.#waiting.delete(threadId);
  }

  sentAt(threadId: string): number | undefined {
    return this.#sent.get(threadId);
  }

  answer(thread: ThreadClock, state: PauseState, isWatched = true): void {
    const { threadId } = thread;
    const sentAt = this.#sent.get(threadId);
    if (sentAt === undefined) throw new Error(`${threadId} has no confirmation under way`);
    thread.confirm(state, sentAt, isWatched);
    this.#sent.delete(threadId);
    if (this.#waiting.delete(threadId)) this.#sent.set(threadId, this.#clock.now());
  }

  /** The stream is disconnected, and the next one is open. */
  break(...threads: ThreadClock[]): void {
    this.#sent.clear();
    this.#waiting.clear();
    for (const thread of threads) thread.disconnect();
  }
}
