/**
 * An elicitation that a program keeps open: renewed while it lives, closed when it is released or its block ends.
 *
 * 1. The increment is not ended by the signal of the one who waits for it: what it opens after that is closed again.
 * 2. All decrements of one hold carry one request id: however often a release is tried, it counts once and its answer is the first one (G4).
 * 3. What fails here is bounded by the lease (G2).
 * 4. The end of an `await using` block cannot know whether the block threw, and an error of its own would take the place of the block's. So
 *    it throws nothing; who wants to be told by an error says `complete()` as the last statement, or uses `Client.withHold`.
 */
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { performance } from "node:perf_hooks";
import type { CallOptions } from "./call-options.js";
import type { Calls } from "./calls.js";
import {
  type CallError,
  type ElicitationExpiredError,
  type ElicitationReleasedError,
  type ElicitationUnknownError,
  PausewatchError,
} from "./errors.js";
import type { Lease } from "./lease.js";
import type { Elicitation, IncrementResponse } from "./messages.js";
import { endingOf, Renewal } from "./renewal.js";

/** Long enough to outlast two lost renewals and a restart of the server, short enough that a crash is forgotten soon. */
const DEFAULT_TTL_MS = 30_000;

/** What a hold says of itself. */
export interface HoldOptions extends CallOptions {
  /** What the person is asked, shown in lists and logs: up to 1,024 bytes. Default: nothing. */
  readonly reason?: string;
  /** Who asks: up to 256 bytes. Default: this program's name and process id, `name[1234]`. */
  readonly holder?: string;
  /** How long the elicitation outlives a holder that died: 1 s to 24 h. Default: 30 s. Renewed every third of it. */
  readonly ttlMs?: number;
  /**
   * If the thread cannot be paused (none is named, no coordinator runs, …), a warning is logged and the program goes on without a pause, as
   * `pausewatch hold` does without `--require`: see {@link Hold.failure}. What is out of its limits is an error all the same. Default: false.
   */
  readonly bestEffort?: boolean;
}

/** What a release found. */
export type Release =
  /** The elicitation was open until this release closed it; `count` open ones are left on the thread. */
  | { readonly ending: "closed"; readonly count: number; readonly revision: bigint }
  /** It had expired before: the answer came too late, and commands of the thread may have been timed out meanwhile. */
  | { readonly ending: "expired"; readonly error: ElicitationExpiredError }
  /** Somebody else's decrement had closed it before. */
  | { readonly ending: "released"; readonly error: ElicitationReleasedError }
  /** The server does not know it: it lost its state, or has long forgotten it. */
  | { readonly ending: "unknown"; readonly error: ElicitationUnknownError }
  /** There was nothing to release: a best-effort hold that could not be opened. */
  | { readonly ending: "notOpen"; readonly error: CallError };

/**
 * The two lanes of a client.
 *
 * @internal
 */
export interface Lanes {
  readonly foreground: Calls;
  readonly background: Calls;
}

/**
 * An open elicitation, which pauses its thread. Made by `Client.hold`.
 *
 * It is renewed in the background until it is released. It does not keep the process alive: when that ends first, the lease ends the pause.
 */
export class Hold implements AsyncDisposable {
  /** Why a best-effort hold could not be opened, so that nothing is paused; `undefined`: it was opened. */
  readonly failure: CallError | undefined;
  readonly #opened: IncrementResponse | undefined;
  readonly #lanes: Lanes;
  readonly #ttlMs: number;
  readonly #decrementId = randomUUID();
  readonly #renewal: Renewal | undefined;
  #lease: Lease = "held";
  #lost: ((lease: Lease) => void)[] = [];
  #release: Promise<Release> | undefined;
  #released: Release | undefined;

  private constructor(lanes: Lanes, opening: IncrementResponse | CallError, ttlMs: number, openedAt: number) {
    this.#lanes = lanes;
    this.#ttlMs = ttlMs;
    if (opening instanceof PausewatchError) {
      this.failure = opening;
      this.#lease = "notOpen";
      this.#released = { ending: "notOpen", error: opening };
      this.#release = Promise.resolve(this.#released);
    } else {
      this.#opened = opening;
      const { elicitation } = opening;
      this.#renewal = new Renewal(lanes.background, elicitation, ttlMs, openedAt, (lease) => this.#tell(lease));
    }
  }

  /** @internal A best-effort hold that could not be opened. */
  static notOpen(lanes: Lanes, failure: CallError): Hold {
    return new Hold(lanes, failure, DEFAULT_TTL_MS, 0);
  }

  /**
   * The elicitation as it was opened.
   *
   * @throws {PausewatchError} A best-effort hold could not be opened: see {@link failure}.
   */
  get elicitation(): Elicitation {
    return this.opened.elicitation;
  }

  /**
   * What the increment made of the thread.
   *
   * @throws {PausewatchError} A best-effort hold could not be opened: see {@link failure}.
   */
  get opened(): IncrementResponse {
    if (this.#opened !== undefined) return this.#opened;
    throw new PausewatchError(`this best-effort hold could not be opened: ${this.failure?.message}`);
  }

  /** @internal See `Client.hold`. */
  static async open(lanes: Lanes, threadId: string, options: HoldOptions): Promise<Hold> {
    const { signal } = options;
    signal?.throwIfAborted();
    const opening = Hold.#increment(lanes, threadId, options);
    if (signal === undefined) return opening;
    return new Promise((resolve, reject) => {
      const abandon = () => {
        reject(signal.reason);
        opening.then((hold) => hold[Symbol.asyncDispose]()).catch(() => undefined);
      };
      signal.addEventListener("abort", abandon, { once: true });
      // Before it is anybody's: from then on it is not to be abandoned.
      opening.finally(() => signal.removeEventListener("abort", abandon)).then(resolve, reject);
    });
  }

  static async #increment(lanes: Lanes, threadId: string, options: HoldOptions): Promise<Hold> {
    const { reason = "", holder = thisProgram(), ttlMs = DEFAULT_TTL_MS, deadlineMs } = options;
    const sent = performance.now();
    const limits = deadlineMs === undefined ? {} : { deadlineMs };
    const opened = await lanes.foreground.increment({ threadId, reason, holder, ttlMs }, limits);
    return new Hold(lanes, opened, ttlMs, sent);
  }

  /** What is known of the lease now. */
  get lease(): Lease {
    return this.#lease;
  }

  /** What the release found; `undefined` before. */
  get released(): Release | undefined {
    return this.#released;
  }

  /**
   * Waits until the lease is not `held`, and says what it is. While it is only `overdue` it may come back; ask again to see. Waiting does not
   * keep the process alive.
   *
   * @throws The reason of `options.signal`, when it is aborted.
   */
  async lost(options: { readonly signal?: AbortSignal } = {}): Promise<Lease> {
    const { signal } = options;
    signal?.throwIfAborted();
    if (this.#lease !== "held") return this.#lease;
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#lost = this.#lost.filter((waiting) => waiting !== told);
        reject(signal?.reason);
      };
      const told = (lease: Lease) => {
        signal?.removeEventListener("abort", abort);
        resolve(lease);
      };
      this.#lost.push(told);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }

  /**
   * Closes the elicitation, and says whether it was open until now. Calling it again is harmless and says the same.
   *
   * @throws {StoreUnavailableError | UnavailableError | DeadlineExceededError | CallError} It may still be open, and is still renewed. Call
   * again; or leave the block, which keeps retrying until the lease has ended.
   */
  release(): Promise<Release> {
    this.#release ??= this.#decrement(this.#lanes.foreground).catch((error: unknown) => {
      this.#release = undefined;
      throw error;
    });
    return this.#release;
  }

  /**
   * Releases, and is the last statement of an `await using` block that must not miss that the answer came too late.
   *
   * @throws {ElicitationExpiredError} The lease had ended before.
   * @throws What {@link release} throws.
   */
  async complete(): Promise<Release> {
    const release = await this.release();
    if (release.ending === "expired") throw release.error;
    return release;
  }

  /**
   * Releases at the end of an `await using` block. Throws nothing, so that no error of it takes the place of the
   * block's: if nobody else released and the lease turns out to have ended, or
   * nobody answers within the deadline, a process warning says so, and the release is tried in the background until the lease is over.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#released !== undefined) return;
    try {
      const { ending } = await this.release();
      if (ending === "expired") this.#warn("its lease had ended before it was released: the answer came too late");
    } catch (error) {
      this.#warn(`not released yet, its lease bounds it: ${error instanceof Error ? error.message : error}`);
      this.releaseInBackground();
    }
  }

  /** Goes on trying to release until the lease is over anyway. Neither waits nor keeps the process alive. @internal */
  releaseInBackground(): void {
    if (this.#renewal === undefined) return;
    this.#renewal.renewNoMore();
    this.#decrement(this.#lanes.background, { deadlineMs: this.#ttlMs }).catch(() => undefined);
  }

  async #decrement(calls: Calls, options?: CallOptions): Promise<Release> {
    const { threadId, elicitationId } = this.elicitation;
    const request = { threadId, elicitationId, requestId: this.#decrementId };
    const release = await calls.decrement(request, options).then(
      ({ count, revision }): Release => ({ ending: "closed", count, revision }),
      (error: unknown): Release => {
        const ending = endingOf(error);
        if (ending === undefined) throw error;
        return { ending, error } as Release;
      },
    );
    this.#renewal?.stop();
    this.#released = release;
    this.#tell(release.ending === "closed" ? "released" : release.ending);
    return release;
  }

  #tell(lease: Lease): void {
    this.#lease = lease;
    if (lease === "held") return;
    for (const told of this.#lost.splice(0)) told(lease);
  }

  #warn(text: string): void {
    const { threadId, elicitationId } = this.elicitation;
    this.#lanes.foreground.log.warn(`hold ${elicitationId} of thread ${threadId}: ${text}`, "PAUSEWATCH_HOLD");
  }
}

function thisProgram(): string {
  // Well below the 256 bytes that are allowed, on a boundary between characters.
  const name = [...basename(process.argv[1] ?? process.title).toWellFormed()]
    .filter((c) => !/\p{Cc}/u.test(c))
    .slice(0, 50);
  return `${name.join("")}[${process.pid}]`;
}
