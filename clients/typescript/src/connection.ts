/**
 * The HTTP/2 connection of a client: opened at the first request, kept alive by pings, and reopened at the next request after it was lost.
 *
 * Connect's own `Http2SessionManager` is not used: with pings on an idle connection it throws from a timer after the connection is lost, and
 * it keeps the process alive while any stream is open.
 *
 * 1. There is no delay between two attempts to connect: callers have their own retry delays.
 * 2. It keeps the process alive only while an awaited stream is open.
 * 3. A dead peer is detected within 15 s, also on an idle connection.
 * 4. A blocked event loop (`execSync`) disconnects no peer that has answered meanwhile.
 * 5. After a GOAWAY of the server, the requests under way continue on their session, beside its replacement.
 * 6. A session is never closed or destroyed in a microtask, only in a turn of the event loop of its own: the microtasks of an answer run while
 *    Node still parses the session's input, and Node 20 frees what it parses (`corrupted size vs. prev_size`).
 */
import * as http2 from "node:http2";
import type { Socket } from "node:net";

/** With 10,000 clients, a server gets 1,000 pings per second. */
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
  /** The number of open streams that the program waits for. */
  awaited: number;
}

export class Connection {
  readonly authority: string;
  readonly #dial: () => Socket;
  #current: Session | undefined;
  /** All sessions that are not closed yet. */
  readonly #sessions = new Set<Session>();
  #closed: Error | undefined;

  /** `authority`: an argument of `http2.connect`; `dial`: starts to connect. */
  constructor(authority: string, dial: () => Socket) {
    this.authority = authority;
    this.#dial = dial;
  }

  /** Opens a stream; `awaited`: whether it keeps the process alive. */
  request([method, path, headers, options]: Request, awaited: boolean): http2.ClientHttp2Stream {
    const session = this.#session();
    const stream = session.http2.request({ ...headers, ":method": method, ":path": path }, options);
    if (awaited) {
      count(session, 1);
      stream.once("close", () => count(session, -1));
    }
    return stream;
  }

  /**
   * Makes the next request open a new session. Requests under way continue; the present session ends with them, or when a ping has no answer.
   */
  reconnect(): void {
    const session = this.#current;
    // An attempt to connect has a timeout of its own.
    if (session === undefined || session.http2.connecting) return;
    this.#current = undefined;
    setImmediate(() => session.http2.close());
  }

  /** Ends new use of this connection. Streams under way continue; each session ends with them, or when a ping has no answer. */
  retire(): void {
    setImmediate(() => {
      for (const { http2, socket } of this.#sessions) {
        if (!http2.connecting) http2.close();
        else socket.destroy(new Error("the client has moved to another address"));
      }
    });
  }

  /** Whether every session is over. */
  get isOver(): boolean {
    return this.#sessions.size === 0;
  }

  /** Ends all later requests at once, and soon all streams, with `reason`. */
  async close(reason: Error): Promise<void> {
    this.#closed = reason;
    await new Promise((resolve) => setImmediate(resolve));
    for (const { http2, socket } of this.#sessions) {
      http2.destroy(reason);
      // Otherwise the socket would continue to connect.
      if (socket.connecting) socket.destroy();
    }
  }

  #session(): Session {
    if (this.#closed !== undefined) throw this.#closed;
    const current = this.#current;
    // A closed session has received a GOAWAY; its requests under way continue.
    if (current !== undefined && !current.http2.closed && !current.http2.destroyed) return current;
    const socket = this.#dial();
    const session = { http2: http2.connect(this.authority, { createConnection: () => socket }), socket, awaited: 0 };
    this.#sessions.add(session);
    session.http2.once("close", () => this.#sessions.delete(session));
    session.http2.unref();
    // Each of its streams reports the error by itself.
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

/**
 * Ends a session without HTTP/2. Not in the `secureConnect` event of the socket: Node aborts if a socket is destroyed before its session has
 * taken it over.
 */
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
    let answered = false;
    const giveUp = () => {
      if (!answered) session.destroy(new Error(`no answer to a ping within ${PING_ANSWER_MS} ms`));
    };
    late = setTimeout(() => afterArrivals(giveUp), PING_ANSWER_MS).unref();
    session.ping(() => {
      answered = true;
      clearTimeout(late);
    });
  }, PING_EVERY_MS).unref();
  session.once("close", () => {
    clearInterval(every);
    clearTimeout(late);
  });
}

/** Calls `decide` after what has arrived is read: if the event loop was blocked, its timers fire before that. */
export function afterArrivals(decide: () => void): void {
  setImmediate(decide);
}
