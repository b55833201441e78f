/**
 * The options of a client's connection besides its settings.
 *
 * The types of Connect are declared by their shape: its own declarations need the DOM library, which programs for Node.js do not use.
 */
import type { Logger } from "./log.js";

/** A `Transport` of `@connectrpc/connect`. */
export interface ConnectTransport {
  // biome-ignore lint/suspicious/noExplicitAny: as Connect declares it
  unary(...call: any[]): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: as Connect declares it
  stream(...call: any[]): Promise<any>;
}

/** An `Interceptor` of `@connectrpc/connect`. */
// biome-ignore lint/suspicious/noExplicitAny: as Connect declares it
export type ConnectInterceptor = (next: (request: any) => Promise<any>) => (request: any) => Promise<any>;

/** The options of a client's connection besides its settings, and its logger. */
export interface ChannelOptions {
  /**
   * Your own transport, instead of an address and the TLS settings. Watches and timeouts need HTTP/2. The transport decides how it pings and
   * reconnects, and whether it keeps the process alive; it is not closed with the client.
   */
  readonly transport?: ConnectTransport | undefined;
  /**
   * Interceptors of every call and every stream; the first is the outermost. A call ends at once with the error that one of them throws itself;
   * a stream is opened again.
   */
  readonly interceptors?: readonly ConnectInterceptor[] | undefined;
  /**
   * Receives warnings: `console`, or a similar logger. Default, and if it throws: `process.emitWarning`, with codes that begin with
   * `PAUSEWATCH_`.
   */
  readonly logger?: Logger | undefined;
}
