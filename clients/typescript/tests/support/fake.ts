/** A coordinator in this process, which does what a test wants: over TCP, or over TLS. */
import { once } from "node:events";
import * as http2 from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  ElicitationService,
  type PauseStateSchema,
  type RefusalSchema,
  WatchResponseSchema,
} from "../../src/gen/pausewatch/v1/elicitation_service_pb.js";

export type Handlers = Partial<ServiceImpl<typeof ElicitationService>>;

type Event = MessageInitShape<typeof WatchResponseSchema>["event"];

/** Events of a watch. */
export const event = {
  state: (value: MessageInitShape<typeof PauseStateSchema>) => of({ case: "pauseState", value }),
  confirmation: (...pauseStates: MessageInitShape<typeof PauseStateSchema>[]) =>
    of({ case: "confirmation", value: { pauseStates } }),
  snapshotComplete: (requests = 1) => of({ case: "snapshotComplete", value: { requests: BigInt(requests) } }),
  heartbeat: (seconds: bigint) => of({ case: "heartbeat", value: { interval: { seconds } } }),
  refusal: (value: MessageInitShape<typeof RefusalSchema>) => of({ case: "refusal", value }),
};

function of(event: NonNullable<Event>) {
  return create(WatchResponseSchema, { event });
}

/** What a stream does when it has no more events. */
export const silence = new Promise<never>(() => undefined);

export class FakeCoordinator implements AsyncDisposable {
  readonly #server: http2.Http2Server;
  readonly #sockets = new Set<Socket>();
  /** Connections so far. */
  connections = 0;

  private constructor(handlers: Handlers, tls: http2.SecureServerOptions | undefined) {
    const handler = connectNodeAdapter({ routes: (router) => router.service(ElicitationService, handlers) });
    this.#server = tls === undefined ? http2.createServer(handler) : http2.createSecureServer(tls, handler);
    this.#server.on("connection", (socket: Socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(handlers: Handlers, tls?: http2.SecureServerOptions): Promise<FakeCoordinator> {
    const fake = new FakeCoordinator(handlers, tls);
    fake.#server.listen(0, "127.0.0.1");
    await once(fake.#server, "listening");
    return fake;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Connections that are open. */
  get open(): number {
    return this.#sockets.size;
  }

  /** Resets every connection. */
  disconnect(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disconnect();
    this.#server.close();
    await once(this.#server, "close");
  }
}
