/**
 * From settings to the transports that calls are made over.
 *
 * Two *lanes* lead over one connection, which differ in what they mean to the process: it lives on while a call of the foreground is under
 * way, and may end at any time as far as the background is concerned. With several addresses that is the connection to one of them, until
 * the route moves on.
 */
import { setMaxListeners } from "node:events";
import * as net from "node:net";
import * as tls from "node:tls";
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { authority, eachAddress, formatAddress, type OneAddress } from "./address.js";
import type { ChannelOptions } from "./channel-options.js";
import { Connection } from "./connection.js";
import { ConfigError, clientClosed } from "./errors.js";
import { Log } from "./log.js";
import { Route, shuffled } from "./route.js";
import type { Settings } from "./settings.js";
import { askForToken, type TokenSource } from "./token.js";

/** A slower connection attempt is repeated: short enough for a second try within the default deadline. */
const CONNECT_TIMEOUT_MS = 2_000;

interface Lanes {
  readonly connection: Connection;
  readonly foreground: Transport;
  readonly background: Transport;
}

export class Channel {
  /** For calls that somebody waits for: they keep the process alive. */
  readonly foreground: Transport;
  /** For what goes on behind the scenes. */
  readonly background: Transport;
  /** The address, in its short form. */
  readonly address: string;
  readonly log: Log;
  readonly route: Route;
  readonly #tokens: TokenSource | undefined;
  /** `undefined`: the transport is the program's own. */
  #lanes: Lanes | undefined;
  /** To addresses that were left; they end with their last streams. */
  #left: Connection[] = [];
  readonly #closing = closingController();

  /** @throws {ConfigError} The certificates or the key cannot be used. */
  constructor(settings: Settings, options: ChannelOptions = {}) {
    const { address, token } = settings;
    this.log = new Log(options.logger);
    this.#tokens = typeof token === "function" ? token : undefined;
    const source = typeof token === "string" ? () => token : token;
    if (options.transport !== undefined) {
      if (options.interceptors?.length)
        throw new ConfigError("interceptors: a transport has its own; give one of them");
      this.address = "the transport";
      this.route = new Route(1);
      const transport = options.transport as Transport;
      this.foreground = this.background = source === undefined ? transport : sendingToken(transport, source);
      return;
    }
    this.address = formatAddress(address);
    const interceptors = [
      ...((options.interceptors ?? []) as Interceptor[]),
      ...(source === undefined ? [] : [withToken(source)]),
    ];
    const open = shuffled(eachAddress(address)).map((one) => {
      const [origin, dial] = [originOf(one), dialer(one, settings.tls)];
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
    if (this.closing.aborted) this.#lanes.connection.close(this.closing.reason);
  }

  /** The lane of the address at which the client is when a call is made. */
  #current(lane: "foreground" | "background"): Transport {
    const now = () => (this.#lanes as Lanes)[lane];
    return {
      unary: (...call) => now().unary(...call),
      stream: (...call) => now().stream(...call),
    };
  }

  /** Aborted when the channel is closed, with the error to end every call with. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /**
   * The token as it is now; `undefined`: it never changes.
   *
   * @throws {ConnectError} There should be one, and is not.
   */
  async nextToken(): Promise<string | undefined> {
    return this.#tokens === undefined ? undefined : askForToken(this.#tokens);
  }

  /** Ends every call and the connection. Calling it again does nothing. */
  close(): void {
    if (this.closing.aborted) return;
    const reason = clientClosed();
    this.#closing.abort(reason);
    for (const connection of [...this.#left, this.#lanes?.connection]) connection?.close(reason);
  }

  /** The next call connects anew; those under way go on. */
  reconnect(): void {
    this.#lanes?.connection.reconnect();
  }
}

function transportOver(connection: Connection, awaited: boolean, interceptors: Interceptor[]): Transport {
  const baseUrl = connection.authority;
  const sessionManager = {
    authority: baseUrl,
    request: async (...request: Parameters<Connection["request"]>[0]) => connection.request(request, awaited),
    // The connection's pings do not depend on it.
    notifyResponseByteRead: () => undefined,
  };
  return createGrpcTransport({ baseUrl, sessionManager, interceptors, acceptCompression: [] });
}

/** Every watch and every pause listens to it: many are no leak, which Node would warn of. */
function closingController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/** As connect compares it: without the scheme's default port. */
function originOf(address: OneAddress): string {
  // The authority that a Unix socket's requests carry: any valid one will do, and servers log it.
  const host = address.kind === "tcp" ? authority(address) : "localhost";
  return new URL(`${address.kind === "tcp" && address.tls ? "https" : "http"}://${host}`).origin;
}

function dialer(address: OneAddress, pem: Settings["tls"]): () => net.Socket {
  if (address.kind === "unix") return () => withinTime(net.connect({ path: address.path }), "connect");
  const { host, port } = address;
  if (!address.tls) return () => withinTime(net.connect({ host, port, noDelay: true }), "connect");

  let secureContext: tls.SecureContext;
  try {
    secureContext = tls.createSecureContext({ ...pem, minVersion: "TLSv1.2" });
  } catch (error) {
    throw new ConfigError(`tls_ca, tls_cert, tls_key: ${error instanceof Error ? error.message : error}`);
  }
  // An IP address is no server name (RFC 6066), and is checked against the certificate all the same.
  const servername = net.isIP(host) === 0 ? host : "";
  return () => {
    const socket = tls.connect({ host, port, servername, secureContext, ALPNProtocols: ["h2"] });
    socket.setNoDelay(true);
    return withinTime(socket, "secureConnect");
  };
}

function withinTime<S extends net.Socket>(socket: S, connected: string): S {
  const giveUp = () => socket.destroy(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`));
  const timer = setTimeout(giveUp, CONNECT_TIMEOUT_MS).unref();
  const stop = () => clearTimeout(timer);
  return socket.once(connected, stop).once("close", stop);
}

export function bearer(token: string): string {
  return `Bearer ${token}`;
}

/** A transport of the program's own, over which the token is sent too. */
function sendingToken(transport: Transport, source: TokenSource): Transport {
  const authorized = async (header: ConstructorParameters<typeof Headers>[0]): Promise<Headers> => {
    const headers = new Headers(header);
    if (!headers.has("authorization")) headers.set("authorization", bearer(await askForToken(source)));
    return headers;
  };
  return {
    unary: async (method, signal, timeoutMs, header, input, contextValues) =>
      transport.unary(method, signal, timeoutMs, await authorized(header), input, contextValues),
    stream: async (method, signal, timeoutMs, header, input, contextValues) =>
      transport.stream(method, signal, timeoutMs, await authorized(header), input, contextValues),
  };
}

function withToken(source: TokenSource): Interceptor {
  return (next) => async (request) => {
    // A stream has been given its own.
    if (!request.header.has("authorization")) request.header.set("authorization", bearer(await askForToken(source)));
    return next(request);
  };
}
