/**
 * Converts settings to the transports of the calls.
 *
 * There are two *lanes* over one connection. A call in the foreground lane keeps the process alive; a call in the background lane does not.
 * With several addresses, there is a connection to one of them, until the client moves to another address.
 */
import * as net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import * as tls from "node:tls";
import { ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { authority, eachAddress, formatAddress, isSecure, type OneAddress } from "./address.js";
import type { ChannelOptions } from "./channel-options.js";
import { afterArrivals, Connection } from "./connection.js";
import { type CallError, ConfigError, clientClosed, InterceptorError } from "./errors.js";
import { Log } from "./log.js";
import { Route, shuffled } from "./route.js";
import type { Settings } from "./settings.js";
import { MAX_TIMEOUT_MS } from "./timers.js";
import { secureContexts } from "./tls-files.js";
import { bearer, currentToken, type TokenSource } from "./token.js";

/** The timeout of a connection attempt: short enough for a second attempt within the default deadline. */
const CONNECT_TIMEOUT_MS = 2_000;

interface Lanes {
  readonly connection: Connection;
  readonly foreground: Transport;
  readonly background: Transport;
}

export class Channel {
  /** The lane of calls that the program waits for: they keep the process alive. */
  readonly foreground: Transport;
  /** The lane of background work. */
  readonly background: Transport;
  /** The address, in its short form. */
  readonly address: string;
  readonly log: Log;
  readonly route: Route;
  readonly #tokens: TokenSource | undefined;
  /** Whether the source has failed, as was logged, and has not worked since. */
  #tokenFailed = false;
  /** `undefined`: the program has given its own transport. */
  #lanes: Lanes | undefined;
  /** The connections to addresses that the client has left; they end with their last streams. */
  #left: Connection[] = [];
  /** The releases under way: the calls that close elicitations. */
  readonly #releases = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();
  readonly #disconnecting = new AbortController();
  #closed: Promise<void> | undefined;

  /** @throws {ConfigError} The certificates or the key are not valid. */
  constructor(settings: Settings, options: ChannelOptions = {}) {
    const { address, token } = settings;
    this.log = new Log(options.logger);
    this.#tokens = typeof token === "function" ? token : undefined;
    const fixed = typeof token === "string" ? token : undefined;
    if (options.transport !== undefined) {
      if (options.interceptors?.length)
        throw new ConfigError("interceptors: a transport has its own; give one of them");
      this.address = "the transport";
      this.route = new Route(1);
      const transport = options.transport as Transport;
      this.foreground = this.background = fixed === undefined ? transport : sendingToken(transport, fixed);
      return;
    }
    this.address = formatAddress(address);
    const interceptors = [
      ...named((options.interceptors ?? []) as Interceptor[]),
      ...(fixed === undefined ? [] : [withToken(fixed)]),
    ];
    const secure = isSecure(address) ? secureContexts(settings.tls, this.log) : undefined;
    const open = shuffled(eachAddress(address)).map((one) => {
      const [origin, dial] = [originOf(one), dialer(one, secure)];
      return (): Lanes => {
        const connection = new Connection(origin, dial);
        const lane = (awaited: boolean) => transportOver(connection, awaited, interceptors);
        return { connection, foreground: lane(true), background: lane(false) };
      };
    });
    this.#lanes = open[0]?.();
    this.route = new Route(open.length, (moves) => this.#moveTo(open[moves % open.length] as () => Lanes));
    this.foreground = this.#current("foreground");
    this.background = this.#current("background");
  }

  #moveTo(open: () => Lanes): void {
    const left = this.#lanes?.connection;
    this.#left = this.#left.filter((connection) => !connection.isOver);
    if (left !== undefined) this.#left.push(left);
    this.#lanes = open();
    left?.retire();
    if (this.disconnecting.aborted) void this.#lanes.connection.close(this.disconnecting.reason);
  }

  /** A lane that uses the client's present address for each call. */
  #current(lane: "foreground" | "background"): Transport {
    const now = () => (this.#lanes as Lanes)[lane];
    return {
      unary: (...call) => now().unary(...call),
      stream: (...call) => now().stream(...call),
    };
  }

  /** Aborted when the channel is closed; its reason is the error that ends every call, except those of holds. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Aborted after {@link closing}, when no release is under way any more; its reason is the error that ends the calls of holds. */
  get disconnecting(): AbortSignal {
    return this.#disconnecting.signal;
  }

  /** Keeps the connection open until `release` has ended. */
  releasing(release: Promise<unknown>): void {
    this.#releases.add(release);
    const remove = () => this.#releases.delete(release);
    release.then(remove, remove);
  }

  /**
   * The current token; `undefined`: it never changes.
   *
   * @throws {ConnectError} The source returned no valid token.
   */
  async nextToken(): Promise<string | undefined> {
    if (this.#tokens === undefined) return undefined;
    const token = await currentToken(this.#tokens);
    this.#tokenFailed = false;
    return token;
  }

  /** Logs why the token of an open stream is not replaced: once, until the source works again. */
  tokenFailed(error: unknown): void {
    if (!this.#tokenFailed) this.log.warn(ConnectError.from(error).rawMessage, "PAUSEWATCH_TOKEN");
    this.#tokenFailed = true;
  }

  /**
   * Ends every call, and the connection after the releases that are under way, but within `timeoutMs`: then the promise resolves. Calling it
   * again does nothing.
   */
  close(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#close(clientClosed(), timeoutMs);
    return this.#closed;
  }

  async #close(reason: CallError, timeoutMs: number): Promise<void> {
    // An increment that is under way adds its release.
    this.#closing.abort(reason);
    if (this.#releases.size > 0) await this.#finishReleases(timeoutMs);
    this.#disconnecting.abort(reason);
    await Promise.all([...this.#left, this.#lanes?.connection].map((connection) => connection?.close(reason)));
  }

  /**
   * Waits for the releases, at most `timeoutMs`. Its timer keeps the process alive, which a release in the background
   * does not.
   */
  async #finishReleases(timeoutMs: number): Promise<void> {
    const ending = new AbortController();
    const late = sleep(Math.min(timeoutMs, MAX_TIMEOUT_MS), "late", { signal: ending.signal }).catch(() => undefined);
    // A release that fails continues as another one in the background.
    while (this.#releases.size > 0) {
      if ((await Promise.race([Promise.allSettled(this.#releases), late])) === "late") return;
    }
    ending.abort();
  }

  /** Makes the next call open a new connection; calls under way continue. */
  reconnect(): void {
    this.#lanes?.connection.reconnect();
  }
}

function transportOver(connection: Connection, awaited: boolean, interceptors: Interceptor[]): Transport {
  const baseUrl = connection.authority;
  const sessionManager = {
    authority: baseUrl,
    request: async (...request: Parameters<Connection["request"]>[0]) => connection.request(request, awaited),
    // The pings of the connection do not depend on received bytes.
    notifyResponseByteRead: () => undefined,
  };
  return createGrpcTransport({ baseUrl, sessionManager, interceptors, acceptCompression: [] });
}

/** The origin as Connect compares it: without the default port of the scheme. */
function originOf(address: OneAddress): string {
  // Requests over a Unix socket need any valid authority, which servers may log.
  const host = address.kind === "tcp" ? authority(address) : "localhost";
  return new URL(`${address.kind === "tcp" && address.tls ? "https" : "http"}://${host}`).origin;
}

/** `secure`: returns the TLS context of the next connection; `undefined`: it is plain text. */
function dialer(address: OneAddress, secure: (() => tls.SecureContext) | undefined): () => net.Socket {
  if (address.kind === "unix") return () => withinTime(net.connect({ path: address.path }), "connect");
  const { host, port } = address;
  if (secure === undefined) return () => withinTime(net.connect({ host, port, noDelay: true }), "connect");

  // An IP address is not a server name (RFC 6066); it is still checked against the certificate. The server name is
  // omitted, not empty: Deno would use an empty name as the host.
  const name = net.isIP(host) === 0 ? { servername: host } : {};
  return () => {
    const socket = tls.connect({ host, port, ...name, secureContext: secure(), ALPNProtocols: ["h2"] });
    socket.setNoDelay(true);
    return withinTime(socket, "secureConnect");
  };
}

/** Destroys a socket that has no connection in time; `connected`: the event of its connection. */
export function withinTime<S extends net.Socket>(socket: S, connected: string): S {
  let waits = true;
  const giveUp = () => {
    if (waits) socket.destroy(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`));
  };
  const timer = setTimeout(() => afterArrivals(giveUp), CONNECT_TIMEOUT_MS).unref();
  const stop = () => {
    waits = false;
    clearTimeout(timer);
  };
  return socket.once(connected, stop).once("close", stop);
}

/** Adds the token to the program's own transport. */
function sendingToken(transport: Transport, token: string): Transport {
  const authorized = (header: ConstructorParameters<typeof Headers>[0]): Headers => {
    const headers = new Headers(header);
    headers.set("authorization", bearer(token));
    return headers;
  };
  return {
    unary: (method, signal, timeoutMs, header, input, contextValues) =>
      transport.unary(method, signal, timeoutMs, authorized(header), input, contextValues),
    stream: (method, signal, timeoutMs, header, input, contextValues) =>
      transport.stream(method, signal, timeoutMs, authorized(header), input, contextValues),
  };
}

/** The interceptors of the program. An error that one of them has thrown itself becomes an {@link InterceptorError}. */
function named(interceptors: Interceptor[]): Interceptor[] {
  if (interceptors.length === 0) return [];
  const passed = new WeakSet<Error>();
  const innermost: Interceptor = (next) => async (request) => {
    try {
      return await next(request);
    } catch (error) {
      if (error instanceof Error) passed.add(error);
      throw error;
    }
  };
  const outermost: Interceptor = (next) => async (request) => {
    try {
      return await next(request);
    } catch (error) {
      throw error instanceof Error && passed.has(error) ? error : new InterceptorError(error);
    }
  };
  return [outermost, ...interceptors, innermost];
}

function withToken(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", bearer(token));
    return next(request);
  };
}
