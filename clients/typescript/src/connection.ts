/**
 * The HTTP/2 connection of a client: made at the first request, kept alive, made again at the next request when it is lost.
 *
 * Connect's own `Http2SessionManager` is not used: with pings on an idle connection it throws from a timer after the connection is lost, and
 * it keeps the process alive while any stream is open.
 *
 * 1. There is no pause between two attempts to connect: whoever calls has a rhythm of its own, and is not to wait for two.
 * 2. It keeps the process alive while a stream is open that somebody waits for, and else not.
 * 3. A peer that died without a word is noticed within 15 s, idle or not.
 * 4. A session that the server told to take no more requests goes on with those under way, beside the one that took its place.
 */
import * as http2 from "node:http2";
import type { Socket } from "node:net";

/** 10,000 clients cost their server 1,000 pings a second. */
const PING_EVERY_MS = 10_000;
const PING_ANSWER_MS = 5_000;

type Request = [
  method: string,
  path: string,
  headers: http2.OutgoingHttpHeaders,
  options: http2.ClientSessionRequestOptions,
];

interface Session {
  readonly http2: http2.ClientHttp2Session;
  readonly socket: Socket;
  /** Open streams that somebody waits for. */
  awaited: number;
}

export class Connection {
  readonly authority: string;
  readonly #dial: () => Socket;
  #current: Session | undefined;
  /** Those that are not over. */
  readonly #sessions = new Set<Session>();
  #closed: Error | undefined;

  /** `authority`: as `http2.connect` takes it; `dial`: begins to connect. */
  constructor(authority: string, dial: () => Socket) {
    this.authority = authority;
    this.#dial = dial;
  }

  /** Opens a stream; `awaited`: it keeps the process alive. */
  request([method, path, headers, options]: Request, awaited: boolean): http2.ClientHttp2Stream {
    const session = this.#session();
    const stream = session.http2.request({ ...headers, ":method": method, ":path": path }, options);
    if (awaited) {
      count(session, 1);
      stream.once("close", () => count(session, -1));
    }
    return stream;
  }

  /** The next request connects anew. Those under way go on, and the session ends with them, or with its pings. */
  reconnect(): void {
    // An attempt to connect is given up by itself.
    if (this.#current?.http2.connecting === false) this.#current.http2.close();
  }

  /** Nothing is asked of it any more. Streams under way go on, and the session ends with them, or with its pings. */
  retire(): void {
    for (const { http2, socket } of this.#sessions) {
      if (!http2.connecting) http2.close();
      else socket.destroy(new Error("the client has moved to another address"));
    }
  }

  /** Whether every session is over. */
  get isOver(): boolean {
    return this.#sessions.size === 0;
  }

  /** Ends all streams, and every later one, with `reason`. */
  close(reason: Error): void {
    this.#closed = reason;
    for (const { http2, socket } of this.#sessions) {
      http2.destroy(reason);
      // It would go on.
      if (socket.connecting) socket.destroy();
    }
  }

  #session(): Session {
    if (this.#closed !== undefined) throw this.#closed;
    const current = this.#current;
    // Closed: the server told it to take no more requests, and those under way go on.
    if (current !== undefined && !current.http2.closed && !current.http2.destroyed) return current;
    const socket = this.#dial();
    const session = { http2: http2.connect(this.authority, { createConnection: () => socket }), socket, awaited: 0 };
    this.#sessions.add(session);
    session.http2.once("close", () => this.#sessions.delete(session));
    session.http2.unref();
    // Each of its streams is told by itself.
    session.http2.on("error", () => undefined);
    refuseOldProtocols(session.http2);
    keepAlive(session.http2);
    this.#current = session;
    return session;
  }
}

function count(session: Session, change: 1 | -1): void {
  session.awaited += change;
  if (session.awaited > 0) session.http2.ref();
  else session.http2.unref();
}

/** Not in the socket's own `secureConnect`: Node aborts when a socket is destroyed before its session has taken it over. */
function refuseOldProtocols(session: http2.ClientHttp2Session): void {
  session.once("connect", () => {
    if (session.encrypted && session.alpnProtocol !== "h2")
      session.destroy(new Error("the server does not speak HTTP/2"));
  });
}

function keepAlive(session: http2.ClientHttp2Session): void {
  let late: NodeJS.Timeout | undefined;
  const every = setInterval(() => {
    if (session.destroyed || session.connecting) return;
    const giveUp = () => session.destroy(new Error(`no answer to a ping within ${PING_ANSWER_MS} ms`));
    late = setTimeout(giveUp, PING_ANSWER_MS).unref();
    session.ping(() => clearTimeout(late));
  }, PING_EVERY_MS).unref();
  session.once("close", () => {
    clearInterval(every);
    clearTimeout(late);
  });
}
