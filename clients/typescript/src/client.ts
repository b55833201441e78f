/**
 * A coordinator, as a program uses it.
 *
 * 1. A call that is retried carries the same request id each time, so it counts once (G4).
 * 2. Nothing waits forever: a call ends with its deadline, a release in the background with its lease. Only a watch continues until it is
 *    closed; that is its purpose.
 * 3. What this library leaves behind when it dies is bounded by a lease (G2).
 * 4. Only what somebody waits for keeps the process alive: calls and watches. Holds and timeouts do not.
 */
import type { SecureContextOptions } from "node:tls";
import { formatAddress } from "./address.js";
import type { CallOptions } from "./call-options.js";
import { Calls } from "./calls.js";
import { Channel } from "./channel.js";
import type { ChannelOptions } from "./channel-options.js";
import { CallError, ConfigError, ElicitationExpiredError, InvalidFieldError, invalidField } from "./errors.js";
import { Hold, type HoldOptions } from "./hold.js";
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

/** How a client connects, and how patient it is. */
export interface ClientOptions extends ConnectionOptions, ChannelOptions {
  /** How long a call may take, retries included; the server receives it too. Default: 5 s. A watch has it for its first answer only. */
  readonly deadlineMs?: number | undefined;
  /**
   * How often a call that failed with UNAVAILABLE, or was one too many in its second, is made again within its deadline. Default: as
   * often as fits. A program that would rather know at once that no coordinator runs sets it to 0.
   */
  readonly retries?: number | undefined;
  /**
   * What Node's TLS takes, such as `ca`, `cert` and `key` as PEM texts, instead of `tlsCa`, `tlsCert` and `tlsKey`, which are files. Only with
   * https.
   */
  readonly tls?: SecureContextOptions | undefined;
  /** Called when the timeouts of the client are connected, cut off, or have been for the whole disconnect grace. */
  readonly onLink?: ((link: Link) => void) | undefined;
}

/** As {@link ClientOptions}, with what else there is to read. */
export interface EnvironmentOptions extends ClientOptions {
  /** The config file. Default: `PAUSEWATCH_CONFIG`, else `$XDG_CONFIG_HOME/pausewatch/config.toml`, else `~/.config/pausewatch/config.toml`. */
  readonly configFile?: string | undefined;
  /** The environment. Default: the process's. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
}

/**
 * A connection to a coordinator, made at the first call and made again when it is lost. One for a process is enough.
 *
 * Every call has a deadline and is repeated within it, with random pauses and the same request id, while the coordinator is unavailable or there are too
 * many calls a second. It ends with the errors that it is documented to have, or with {@link LimitExceededError} (nothing changed),
 * {@link UnavailableError}, {@link DeadlineExceededError} (outcome unknown: call again with the same request id) or another
 * {@link CallError}.
 */
export class Client implements Disposable {
  readonly #settings: Settings;
  readonly #channel: Channel;
  readonly #onLink: ((link: Link) => void) | undefined;
  readonly #lanes: { readonly foreground: Calls; readonly background: Calls };
  /** Those that follow a thread, by their disconnect grace. */
  readonly #followers = new Map<number, Follower>();

  /**
   * A client with these options, whatever the environment says. Does not connect yet.
   *
   * @throws {ConfigError} An option is wrong.
   */
  constructor(options: ClientOptions = {}) {
    const { deadlineMs = DEFAULT_DEADLINE_MS, retries = Number.POSITIVE_INFINITY } = options;
    if (!(deadlineMs > 0)) throw new ConfigError(`deadlineMs is ${deadlineMs}; allowed: above 0`);
    this.#settings = settingsOf(options, options.tls);
    this.#channel = new Channel(this.#settings, options);
    this.#onLink = options.onLink;
    const patience = { deadlineMs, retries };
    this.#lanes = {
      foreground: new Calls(this.#channel, "foreground", patience),
      background: new Calls(this.#channel, "background", patience),
    };
  }

  /**
   * A client as options, environment (`PAUSEWATCH_ADDRESS`, `_THREAD_ID`, `_TOKEN`, `_TLS_CA`, `_TLS_CERT`, `_TLS_KEY`) and config file say,
   * in this order, each value by itself. Without `PAUSEWATCH_THREAD_ID`, the environment's thread is that of the agent that started this
   * program: `CODEX_THREAD_ID`, then `CLAUDE_CODE_SESSION_ID`. Does not connect yet.
   *
   * @throws {ConfigError} One of them is wrong; the message says which.
   */
  static fromEnv(options: EnvironmentOptions = {}): Client {
    const { configFile, environment = process.env } = options;
    const settings = withEnvironment(options, configFile, environment);
    // Instead of the files that the environment names, but not beside those that the program names.
    const files = options.tls === undefined ? settings : { ...settings, ...tlsFilesOf(options) };
    return new Client({ ...options, ...files });
  }

  /** The coordinator's address, in its short form. */
  get address(): string {
    return formatAddress(this.#settings.address);
  }

  /** The thread of calls that name none. */
  get threadId(): string | undefined {
    return this.#settings.threadId;
  }

  /**
   * Opens one elicitation, and leaves it to you to renew and close it. {@link hold} does both.
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
   * Lists one page of ended pauses, the last one to end first.
   *
   * @throws {InvalidFieldError} Of `pageToken` also after a restart of the server.
   */
  listPauses(request: ListPausesRequest = {}, options?: CallOptions): Promise<ListPausesResponse> {
    return this.#lanes.foreground.listPauses(request, options);
  }

  /**
   * Opens an elicitation that stays open until it is released, or the `await using` block ends. `threadId`: default the client's.
   *
   * @throws {InvalidFieldError | TooManyElicitationsError | LimitExceededError} Nothing is open.
   * @throws {StoreUnavailableError | UnavailableError | DeadlineExceededError | CallError} It may be open; its lease bounds it.
   * @throws The reason of `options.signal`, when it is aborted: what is opened is closed again in the background.
   *
   * With `options.bestEffort`, only {@link InvalidFieldError}, the reason of the signal, and that the client is closed.
   */
  async hold(threadId: string | undefined, options: HoldOptions = {}): Promise<Hold> {
    try {
      return await Hold.open(this.#lanes, this.#threadIdOr(threadId), options);
    } catch (error) {
      if (!options.bestEffort || !(error instanceof CallError) || this.#channel.closing.aborted) throw error;
      const isNamed = (threadId ?? this.threadId) !== undefined;
      if (error instanceof InvalidFieldError && isNamed) throw error;
      const text = `the thread is not paused, going on without a hold: ${error.message}`;
      this.#channel.log.warn(text, "PAUSEWATCH_HOLD");
      return Hold.notOpen(this.#lanes, error);
    }
  }

  /**
   * Runs `body` while an elicitation is open, and gives what it gives.
   *
   * @throws What `body` throws, whatever the release finds: that is in `hold.released`.
   * @throws {ElicitationExpiredError} `body` is done, but the lease had ended before: the answer came too late.
   * @throws What {@link hold} and {@link Hold.release} throw; the release is tried in the background until the lease is over.
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
   * Watches threads, across lost connections: `for await (const event of client.watch(["t"]))`. `threadIds`: default every thread that this
   * client may see.
   *
   * @throws {InvalidFieldError} No thread can have one of these ids.
   */
  watch(threadIds?: Iterable<string>, options?: WatchOptions): Watch {
    return new Watch(this.#lanes.foreground, threadIds, options);
  }

  /**
   * Starts a timeout of `ms` milliseconds (0 and more, Infinity: none) that stands still while its thread is paused; `maxWallMs` bounds it all
   * the same. All timeouts of a client that have the same `disconnectGraceMs` share one watch.
   *
   * @throws {InvalidFieldError} No thread can have this id, or none is given.
   * @throws {RangeError} `ms` or `maxWallMs` is no such number.
   * @throws {CallError} The client is closed.
   */
  startTimeout(ms: number, options: TimeoutOptions = {}): PausableTimeout {
    const { threadId = this.threadId, maxWallMs = Number.POSITIVE_INFINITY } = options;
    const { disconnectGraceMs = DEFAULT_GRACE_MS } = options;
    return new PausableTimeout(ms, maxWallMs, threadId, () => this.#follower(disconnectGraceMs), systemClock);
  }

  /**
   * The signal of a timeout that nobody needs to stop, as `AbortSignal.timeout` is one. Where commands are many and limits long, prefer
   * {@link startTimeout}, which can be ended with its command.
   *
   * @throws As {@link startTimeout}.
   */
  pausableTimeout(ms: number, options?: TimeoutOptions): AbortSignal {
    return this.startTimeout(ms, options).signal;
  }

  /**
   * Ends every call with an error, every watch, and the connection. Holds are not released: their leases end them. Timeouts run on, and from
   * now on no thread pauses them: they expire at the end of their limits, and nobody is asked before. Starting another is an error, as any call
   * is. Calling it again does nothing.
   */
  close(): void {
    this.#channel.close();
    for (const follower of this.#followers.values()) follower.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #follower(graceMs: number): Follower {
    this.#channel.closing.throwIfAborted();
    let follower = this.#followers.get(graceMs);
    if (follower === undefined) {
      if (!(graceMs >= 0)) throw new RangeError(`a disconnect grace of ${graceMs} ms; allowed: 0 and more`);
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
