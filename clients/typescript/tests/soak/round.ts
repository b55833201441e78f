/** One round of the soak: everything that a program does with the library, at the same time, cancelled at random. */
import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { CallError, Client, type ClientOptions, type Hold, type PausableTimeout } from "../../src/index.js";

/** The longest wait for anything. */
const LIMIT_MS = 30_000;
const QUIET = { info: () => undefined, warn: () => undefined };

export interface Order {
  readonly round: number;
  readonly seconds: number;
  readonly deadlines: number;
  readonly disturbed: boolean;
  readonly prefix: string;
  readonly settings: { readonly address: string; readonly token?: string; readonly tls_ca?: string };
}

/** The results of a round, as the soak prints them. */
export class Counts {
  holds = 0;
  cancelled = 0;
  unknown = 0;
  expired = 0;
  early = 0;
  false_expiries = 0;
  hangs = 0;
  late_ms = 0;
  bare_late_ms = 0;
  clock_error_ms = 0;
  await_error_ms = 0;
  disconnects = 0;
}

export async function playRound(order: Order): Promise<Counts> {
  const { address, token, tls_ca: tlsCa } = order.settings;
  const options: ClientOptions = { address, token, tlsCa, logger: QUIET };
  const round = new Round(order, options);
  await round.play();
  return round.counts;
}

/** Whether the elicitation may be open after this error. */
function isTransient(error: unknown): boolean {
  return error instanceof CallError && error.transient;
}

class Round {
  readonly counts = new Counts();
  readonly #order: Order;
  readonly #options: ClientOptions;
  readonly #client: Client;
  readonly #end: number;

  constructor(order: Order, options: ClientOptions) {
    this.#order = order;
    this.#options = options;
    this.#client = new Client(options);
    this.#end = performance.now() + order.seconds * 1_000;
  }

  async play(): Promise<void> {
    const workers = [1, 2, 3, 4].map(() => this.#until(() => this.#cancelledHold()));
    await Promise.all([
      ...workers,
      this.#until(() => this.#burst()),
      this.#until(() => this.#shortLife()),
      this.#until(() => this.#deadlines()),
      this.#person(),
      this.#clock(),
    ]);
    await this.#within(this.#client.close());
  }

  get #isOver(): boolean {
    return performance.now() >= this.#end;
  }

  async #until(step: () => Promise<void>): Promise<void> {
    while (!this.#isOver) await step();
  }

  #thread(name: string): string {
    return `${this.#order.prefix}${name}`;
  }

  /** The result of `work`; `undefined` if it takes too long, which is counted. */
  async #within<T>(work: Promise<T>): Promise<T | undefined> {
    const ending = new AbortController();
    const late = sleep(LIMIT_MS, "late" as const, { signal: ending.signal }).catch(() => undefined);
    const result = await Promise.race([work, late]).finally(() => ending.abort());
    if (result !== "late") return result as T;
    this.counts.hangs++;
    return undefined;
  }

  async #cancelledHold(): Promise<void> {
    this.counts.holds++;
    const threadId = this.#thread(`hold-${randomInt(20)}`);
    const cancelled = ["opening", "releasing", "never"][randomInt(3)];
    const abort = new AbortController();
    const options = { ttlMs: 60_000, signal: abort.signal };
    let hold: Hold | undefined;
    try {
      const opening = this.#client.hold(threadId, options);
      if (cancelled === "opening") setTimeout(() => abort.abort(), randomInt(20));
      hold = await this.#within(opening);
    } catch (error) {
      if (abort.signal.aborted) this.counts.cancelled++;
      else if (isTransient(error)) this.counts.unknown++;
      else throw error;
    }
    if (hold === undefined) return;
    const released = this.#release(hold);
    if (cancelled !== "releasing") {
      await released;
      return;
    }
    // A release cannot be cancelled: it is left alone, and called again.
    this.counts.cancelled++;
    released.catch(() => undefined);
    await sleep(randomInt(20));
    await this.#release(hold);
    await released;
  }

  /** Opens a hold; `undefined`: the server was not reached. */
  async #open(threadId: string): Promise<Hold | undefined> {
    try {
      return await this.#client.hold(threadId, { ttlMs: 60_000 });
    } catch (error) {
      if (!isTransient(error)) throw error;
      this.counts.unknown++;
      return undefined;
    }
  }

  async #release(hold: Hold): Promise<void> {
    try {
      await this.#within(hold.release());
    } catch (error) {
      if (!isTransient(error)) throw error;
      this.counts.unknown++;
      hold.releaseInBackground();
    }
  }

  async #burst(): Promise<void> {
    const abort = new AbortController();
    const { signal } = abort;
    const calls = Array.from({ length: 100 }, () =>
      this.#client.getPauseState({ threadId: this.#thread("burst") }, { signal }),
    );
    const ended = Promise.allSettled(calls);
    setTimeout(() => abort.abort(), randomInt(3));
    await this.#within(ended);
    await sleep(1_000);
  }

  async #shortLife(): Promise<void> {
    const client = new Client(this.#options);
    const watch = client.watch([1, 2, 3].map((n) => this.#thread(`short-${n}`)));
    const watching = (async () => {
      for await (const _ of watch);
    })();
    // It may start after the client was closed.
    const watched = watching.catch((error: unknown) => {
      if (!(error instanceof CallError)) throw error;
    });
    const timeout = client.startTimeout(60_000, { threadId: this.#thread("short-1") });
    const opening = client.hold(this.#thread("short-2"), { ttlMs: 60_000 });
    const opened = opening.then(
      // A closed client does not release the holds that it has given away.
      (hold) => void (hold.released === undefined && this.counts.unknown++),
      (error: unknown) => void (isTransient(error) && this.counts.unknown++),
    );
    await sleep(randomInt(50));
    await this.#within(client.close());
    await this.#within(Promise.all([watched, opened]));
    timeout[Symbol.dispose]();
  }

  async #deadlines(): Promise<void> {
    const all = Array.from({ length: this.#order.deadlines }, (_, number) => {
      const limit = 200 + randomInt(800);
      const end = performance.now() + limit;
      const timeout = this.#client.startTimeout(limit, { threadId: this.#thread(`deadline-${number % 20}`) });
      const bare = sleep(limit).then(() => {
        this.counts.bare_late_ms = Math.max(this.counts.bare_late_ms, performance.now() - end);
      });
      return Promise.all([bare, this.#expiry(timeout, end)]);
    });
    await this.#within(Promise.all(all));
  }

  async #expiry(timeout: PausableTimeout, end: number): Promise<void> {
    await new Promise((resolve) => timeout.signal.addEventListener("abort", resolve));
    const late = performance.now() - end;
    this.counts.expired++;
    if (late < -5) this.counts.early++;
    this.counts.late_ms = Math.max(this.counts.late_ms, late);
  }

  async #person(): Promise<void> {
    const threadId = this.#thread("person");
    const hold = await this.#open(threadId);
    if (hold === undefined) return;
    const timeout = this.#client.startTimeout(300, { threadId });
    const watch = this.#client.watch([threadId]);
    const watching = (async () => {
      for await (const { type } of watch) if (type === "disconnected") this.counts.disconnects++;
    })();
    await sleep(Math.max(this.#order.seconds - 1, 0.6) * 1_000);
    if (timeout.expired) this.counts.false_expiries++;
    const expired = new Promise((resolve) => timeout.signal.addEventListener("abort", resolve));
    await this.#release(hold);
    if (!timeout.expired) await this.#within(expired);
    if (timeout.elapsedMs < 295) this.counts.early++;
    watch.close();
    await watching;
  }

  /** The charged time of a timeout, against the clock of this process. */
  async #clock(): Promise<void> {
    const starting = performance.now();
    using timeout = this.#client.startTimeout(60_000, { threadId: this.#thread("clock") });
    const started = performance.now();
    await sleep(50);
    const pausing = performance.now();
    const pause = timeout.pause();
    const paused = performance.now();
    await sleep(100 + randomInt(400));
    const leastPause = performance.now() - paused;
    pause[Symbol.dispose]();
    const mostPause = performance.now() - pausing;
    const least = performance.now() - started - mostPause;
    const elapsed = timeout.elapsedMs;
    const most = performance.now() - starting - leastPause;
    this.counts.clock_error_ms = Math.max(this.counts.clock_error_ms, least - elapsed, elapsed - most);
    if (!this.#order.disturbed) await this.#awaited(timeout);
  }

  async #awaited(timeout: PausableTimeout): Promise<void> {
    const threadId = this.#thread("child");
    using _wait = timeout.awaitThread(threadId);
    while (!timeout.linked && !this.#isOver) await sleep(5);
    const [from, charged, after] = [performance.now(), timeout.elapsedMs, performance.now()];
    const hold = await this.#open(threadId);
    if (hold === undefined) return;
    const opened = performance.now();
    await sleep(100 + randomInt(400));
    const releasing = performance.now();
    await this.#release(hold);
    const released = performance.now();
    // The message of the resume may arrive after the answer.
    for (let turn = 0; turn < 200 && timeout.paused; turn++) await sleep(5);
    await sleep(50);
    // The process may be stopped between two readings of the clock.
    const leastWall = performance.now() - after;
    const grown = timeout.elapsedMs - charged;
    const mostWall = performance.now() - from;
    const [least, most] = [releasing - opened, released - from];
    const error = Math.max(least - (mostWall - grown), leastWall - grown - most);
    this.counts.await_error_ms = Math.max(this.counts.await_error_ms, error);
  }
}
