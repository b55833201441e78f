/**
 * What a client may be made of besides its settings.
 *
 * The types of Connect are named by their shape: its own declarations need the DOM library, which a program for Node.js has no use for.
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

/** What the connection of a client is made of besides its settings, and where it says what is no error. */
export interface ChannelOptions {
  /**
   * A transport of your own instead of an address and what belongs to it. Watches and timeouts need HTTP/2. How it pings and reconnects, and
   * whether it keeps the process alive, is its own; it is not closed with the client.
   */
  readonly transport?: ConnectTransport | undefined;
  /** Around every call and every stream; the first is the outermost. */
  readonly interceptors?: readonly ConnectInterceptor[] | undefined;
  /** Where warnings go: `console`, or a logger like it. Default: `process.emitWarning`, with codes that begin with `PAUSEWATCH_`. */
  readonly logger?: Logger | undefined;
}
