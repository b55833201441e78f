/** A port without a server: every connection is reset and counted. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

export class Refusing implements AsyncDisposable {
  readonly #server: Server;
  #connections = 0;

  private constructor() {
    this.#server = createServer((socket) => {
      this.#connections++;
      socket.resetAndDestroy();
      this.#server.emit("refused");
    });
  }

  static async start(port = 0): Promise<Refusing> {
    const refusing = new Refusing();
    refusing.#server.listen(port, "127.0.0.1");
    await once(refusing.#server, "listening");
    return refusing;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Waits until so many connections were refused. */
  async attempts(count: number): Promise<void> {
    while (this.#connections < count) await once(this.#server, "refused");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await once(this.#server, "close");
  }
}
