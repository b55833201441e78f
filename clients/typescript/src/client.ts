/**
 * The client of a coordinator.
 *
 * 1. A call that is retried has the same request id each time, so it counts once (G4).
 * 2. Nothing waits forever: a call ends with its deadline, a release in the background with its lease. Only a watch continues until it is
 *    closed.
 * 3. If the program dies, its open elicitations end with their leases (G2).
 * 4. Calls, watches and a close keep the process alive, since the program waits for them. Holds and timeouts do not.
 */
import type { SecureContextOptions } from "node:tls";
import { formatAddress } from "./address.js";
import type { CallOptions } from "./call-options.js";
import { Calls } from "./calls.js";
import { Channel } from "./channel.js";
import type { ChannelOptions } from "./channel-options.js";
import { CallError, ConfigError, ElicitationExpiredError, InvalidFieldError, invalidField } from "./errors.js";
import { checkMs, checkNumber } from "./fields.js";
import { Hold, type HoldOptions, type Lanes } from "./hold.js";
import { Log } from "./log.js";
import type {
  DecrementRequest,
  DecrementResponse,
  Elicitation,
  GetRequest,
  IncrementRequest,
  IncrementResponse,
  ListPausesRequest,
  ListPausesResponse,
  ListRequest,
  ListResponse,
  PauseState,
  RenewRequest,
} from "./messages.js";
import { type ConnectionOptions, type Settings, settingsOf, tlsFilesOf, withEnvironment } from "./settings.js";
import { systemClock } from "./stopwatch/clock.js";
import { Follower } from "./stopwatch/follower.js";
import { type Link, LinkReporter } from "./stopwatch/link.js";
import { PausableTimeout, type TimeoutOptions } from "./stopwatch/timeout.js";
import { type Listener, WatchStream } from "./watch/stream.js";
import { Watch, type WatchOptions } from "./watch/watch.js";

const DEFAULT_DEADLINE_MS = 5_000;
const DEFAULT_GRACE_MS = 30_000;

/** The options of a client: how it connects, and the deadline of its calls. */
export interface ClientOptions extends ConnectionOptions, ChannelOptions {
  /**
   * The deadline of a call in milliseconds, retries included; it is sent to the server too. Default: 5 s. For a watch it applies only to the
   * first answer.
   */
  readonly deadlineMs?: number | undefined;
  /**
   * The maximum number of retries of a call within its deadline, after UNAVAILABLE or when the limit of calls per second was exceeded.
   * Default: no maximum. With 0, a missing coordinator is reported at once.
   */
  readonly retries?: number | undefined;
  /**
   * TLS options of Node.js, such as `ca`, `cert` and `key` as PEM texts, instead of the files `tlsCa`, `tlsCert` and `tlsKey`. Only with https.
   */
  readonly tls?: SecureContextOptions | undefined;
  /** Called when the timeouts of the client are connected, are disconnected, or have been disconnected for the whole disconnect grace. */
  readonly onLink?: ((link: Link) => void) | undefined;
}

/** The options of {@link Client.fromEnv}. */
export interface EnvironmentOptions extends ClientOptions {
  /** The config file. Default: `PAUSEWATCH_CONFIG`, else `$XDG_CONFIG_HOME/pausewatch/config.toml`, else `~/.config/pausewatch/config.toml`. */
  readonly configFile?: string | undefined;
  /** The environment variables. Default: `process.env`. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
}

/**
 * A client of a coordinator. It connects at the first call, and reconnects whenever the connection is lost. One client per process is enough.
 *
 * Every call has a deadline. While the coordinator is unavailable or the limit of calls per second is exceeded, the call is retried within the
 * deadline, with random retry delays and the same request id. Besides its documented errors a call can throw {@link LimitExceededError}
 * (nothing changed); {@link UnavailableError} or {@link DeadlineExceededError} (whether the call counted is unknown: call again with the same
 * request id); or another {@link CallError}.
 */
export class Client implements Disposable, AsyncDisposable {
  readonly #settings: Settings;
  readonly #channel: Channel;
  readonly #onLink: ((link: Link) => void) | undefined;
  readonly #lanes: Lanes;
  readonly #lanesOfHolds: Lanes;
  /** The followers that have threads; the key is their disconnect grace. */
  readonly #followers = new Map<number, Follower>();

  /**
   * A client with these options. Ignores the environment. Does not connect yet.
   *
   * @throws {ConfigError} An option is not valid.
   */
  constructor(options: ClientOptions = {}) {
    const { deadlineMs = DEFAULT_DEADLINE_MS, retries = Number.POSITIVE_INFINITY } = options;
    checkNumber("deadlineMs", deadlineMs, ConfigError);
    if (!(deadlineMs > 0)) throw new ConfigError(`deadlineMs is ${deadlineMs}; allowed: above 0`);
    this.#settings = settingsOf(options, options.tls);
    this.#channel = new Channel(this.#settings, options);
    this.#onLink = options.onLink;
    const limits = { deadlineMs, retries };
    const channel = this.#channel;
    const lanes = (closing: AbortSignal): Lanes => ({
      foreground: new Calls(channel, "foreground", limits, closing),
      background: new Calls(channel, "background", limits, closing),
    });
    this.#lanes = lanes(channel.closing);
    this.#lanesOfHolds = lanes(channel.disconnecting);
  }

  /**
   * A client with the settings of the options, else of the environment (`PAUSEWATCH_ADDRESS`, `_THREAD_ID`, `_TOKEN`, `_TLS_CA`, `_TLS_CERT`,
   * `_TLS_KEY`), else of the config file, for each setting separately. Without `PAUSEWATCH_THREAD_ID`, the thread is that of the agent that
   * started this program: `CODEX_THREAD_ID`, then `CLAUDE_CODE_SESSION_ID`. Does not connect yet.
   *
   * @throws {ConfigError} A setting is not valid; the message says which.
   */
  static fromEnv(options: EnvironmentOptions = {}): Client {
    const { configFile, environment = process.env } = options;
    const settings = withEnvironment(options, configFile, environment, new Log(options.logger));
    // `tls` overrides files of the environment, but contradicts files that the program names.
    const files = options.tls === undefined ? settings : { ...settings, ...tlsFilesOf(options) };
    return new Client({ ...options, ...files });
  }

  /** The coordinator's address, in its short form. */
  get address(): string {
    return formatAddress(this.#settings.address);
  }

  /** The default thread of calls. */
  get threadId(): string | undefined {
    return this.#settings.threadId;
  }

  /**
   * Opens one elicitation. The caller must renew and close it; {@link hold} does both by itself.
   *
   * @throws {InvalidFieldError | RequestIdReusedError | TooManyElicitationsError | LimitExceededError} Nothing changed.
   * @throws {StoreUnavailableError} Call again with the same request id.
   */
  async incrementElicitation(request: IncrementRequest = {}, options?: CallOptions): Promise<IncrementResponse> {
    return this.#lanes.foreground.increment(this.#withThread(request), options);
  }

  /**
   * Closes one elicitation.
   *
   * @throws {InvalidFieldError | RequestIdReusedError | NoOutstandingElicitationError | ElicitationUnknownError | ElicitationReleasedError |
   * ElicitationExpiredError} Nothing changed.
   * @throws {StoreUnavailableError} Call again with the same request id.
   */
  async decrementElicitation(request: DecrementRequest = {}, options?: CallOptions): Promise<DecrementResponse> {
    return this.#lanes.foreground.decrement(this.#withThread(request), options);
  }

  /**
   * Extends one lease. Calling it again is harmless.
   *
   * @throws {InvalidFieldError | ElicitationUnknownError | ElicitationReleasedError | ElicitationExpiredError} Nothing changed.
   */
  async renewElicitation(request: RenewRequest, options?: CallOptions): Promise<Elicitation> {
    return this.#lanes.foreground.renew(this.#withThread(request), options);
  }

  /**
   * Reads one thread, with its open elicitations.
   *
   * @throws {InvalidFieldError}
   */
  async getPauseState(request: GetRequest = {}, options?: CallOptions): Promise<PauseState> {
    return this.#lanes.foreground.get(this.#threadIdOr(request.threadId), options);
  }

  /**
   * Lists one page of threads.
   *
   * @throws {InvalidFieldError}
   */
  listPauseStates(request: ListRequest = {}, options?: CallOptions): Promise<ListResponse> {
    return this.#lanes.foreground.list(request, options);
  }

  /**
   * Lists one page of ended pauses, latest end first.
   *
   * @throws {InvalidFieldError} Also for a `pageToken` from before a restart of the server.
   */
  listPauses(request: ListPausesRequest = {}, options?: CallOptions): Promise<ListPausesResponse> {
    return this.#lanes.foreground.listPauses(request, options);
  }

  /**
   * Opens an elicitation that stays open until it is released, or the `await using` block ends. `threadId` undefined: the client's thread.
   *
   * @throws {InvalidFieldError | TooManyElicitationsError | LimitExceededError} Nothing is open.
   * @throws {StoreUnavailableError | UnavailableError | DeadlineExceededError | CallError} It may be open; its lease bounds it.
   * @throws The reason of `options.signal`, if it is aborted: then the elicitation is closed again in the background.
   *
   * With `options.bestEffort`, it throws only {@link InvalidFieldError}, the reason of the signal, and the error of a closed client.
   */
  async hold(threadId: string | undefined, options: HoldOptions = {}): Promise<Hold> {
    try {
      return await Hold.open(this.#lanesOfHolds, this.#threadIdOr(threadId), options);
    } catch (error) {
      if (!options.bestEffort || !(error instanceof CallError) || this.#channel.closing.aborted) throw error;
      const isNamed = (threadId ?? this.threadId) !== undefined;
      if (error instanceof InvalidFieldError && isNamed) throw error;
      const text = `the thread is not paused, going on without a hold: ${error.message}`;
      this.#channel.log.warn(text, "PAUSEWATCH_HOLD");
      return Hold.notOpen(this.#lanesOfHolds, error);
    }
  }

  /**
   * Runs `body` while an elicitation is open, and returns the result of `body`.
   *
   * @throws The error of `body`, regardless of the result of the release, which is in `hold.released`.
   * @throws {ElicitationExpiredError} `body` has ended, but the lease had already ended: the answer came too late.
   * @throws The errors of {@link hold} and {@link Hold.release}; the release is retried in the background until the lease has ended.
   */
  async withHold<T>(
    threadId: string | undefined,
    options: HoldOptions,
    body: (hold: Hold) => Promise<T> | T,
  ): Promise<T> {
    const hold = await this.hold(threadId, options);
    let result: T;
    try {
      result = await body(hold);
    } catch (error) {
      await hold[Symbol.asyncDispose]();
      throw error;
    }
    try {
      await hold.complete();
    } catch (error) {
      if (!(error instanceof ElicitationExpiredError)) hold.releaseInBackground();
      throw error;
    }
    return result;
  }

  /**
   * Watches threads, across reconnects: `for await (const event of client.watch(["t"]))`. `threadIds`: default every thread that this client
   * may read.
   *
   * @throws {InvalidFieldError} An id is not valid. If the client is closed, the first `next()` of the watch throws.
   */
  watch(threadIds?: Iterable<string>, options?: WatchOptions): Watch {
    return new Watch(this.#lanes.foreground, threadIds, options);
  }

  /**
   * Starts a timeout of `ms` milliseconds (0 or more; Infinity: no limit) that stands still while its thread is paused; `maxWallMs` limits its
   * wall time. All timeouts of a client with the same `disconnectGraceMs` share one watch.
   *
   * @throws {InvalidFieldError} The thread id is not valid, or is missing.
   * @throws {RangeError} `ms`, `maxWallMs` or `disconnectGraceMs` is not a number, or is below 0.
   * @throws {CallError} The client is closed.
   */
  startTimeout(ms: number, options: TimeoutOptions = {}): PausableTimeout {
    const { maxWallMs = Number.POSITIVE_INFINITY, disconnectGraceMs = DEFAULT_GRACE_MS } = options;
    const threadId = this.#threadIdOr(options.threadId);
    return new PausableTimeout(ms, maxWallMs, threadId, () => this.#follower(disconnectGraceMs), systemClock);
  }

  /**
   * Returns the signal of a timeout that need not be stopped, like `AbortSignal.timeout`. For many commands with long limits, prefer
   * {@link startTimeout}, which can be stopped with its command.
   *
   * @throws The errors of {@link startTimeout}.
   */
  pausableTimeout(ms: number, options?: TimeoutOptions): AbortSignal {
    return this.startTimeout(ms, options).signal;
  }

  /**
   * Ends every call with an error, and every watch. Releases that are under way continue, and a hold that is being opened is released; the
   * connection ends after them, within one deadline, and then the promise resolves. Other holds are not released: they are overdue, and end
   * with their leases.
   * Timeouts continue, and are no longer paused by their threads: they expire at the end of their limits, without asking the coordinator. New
   * ones throw, as every call does. Calling it again does nothing.
   */
  close(): Promise<void> {
    const closed = this.#channel.close(this.#lanes.foreground.deadlineMs);
    for (const follower of this.#followers.values()) follower.close();
    return closed;
  }

  /** As {@link close}, without waiting. */
  [Symbol.dispose](): void {
    void this.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #follower(graceMs: number): Follower {
    this.#channel.closing.throwIfAborted();
    let follower = this.#followers.get(graceMs);
    if (follower === undefined) {
      checkMs("disconnectGraceMs", graceMs);
      const open = (listener: Listener) => new WatchStream(this.#lanes.background, {}, listener);
      const link = new LinkReporter(graceMs, systemClock, this.#channel.log, this.#onLink);
      follower = new Follower(open, graceMs, systemClock, () => this.#followers.delete(graceMs), link);
      this.#followers.set(graceMs, follower);
    }
    return follower;
  }

  #withThread<R extends { readonly threadId?: string | undefined }>(request: R): R & { readonly threadId: string } {
    return { ...request, threadId: this.#threadIdOr(request.threadId) };
  }

  #threadIdOr(threadId: string | undefined): string {
    const found = threadId ?? this.threadId;
    if (found !== undefined) return found;
    throw invalidField(
      "thread_id",
      "thread_id is not given, neither here nor as PAUSEWATCH_THREAD_ID; allowed: 1 to 256 bytes",
    );
  }
}
