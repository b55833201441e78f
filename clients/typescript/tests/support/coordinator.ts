/** A real `pausewatch serve`: the program that PAUSEWATCH_PROGRAM names. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, type ClientOptions } from "../../src/index.js";

export class Coordinator implements AsyncDisposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "pausewatch-test-"));
  readonly #durable: boolean;
  readonly #limits: readonly string[];
  #address: string;
  #process: ChildProcess | undefined;

  private constructor(listen: "tcp" | "unix", durable: boolean, limits: readonly string[]) {
    this.#address = listen === "tcp" ? "127.0.0.1:0" : `unix:${join(this.#directory, "p.sock")}`;
    this.#durable = durable;
    this.#limits = limits;
  }

  /** `durable`: it can be started again on the same data. `limits`: options of `serve`. */
  static async start(
    options: { listen?: "tcp" | "unix"; durable?: boolean; limits?: readonly string[] } = {},
  ): Promise<Coordinator> {
    const { listen = "tcp", durable = false, limits = [] } = options;
    const coordinator = new Coordinator(listen, durable, limits);
    await coordinator.start();
    return coordinator;
  }

  get address(): string {
    return this.#address;
  }

  client(options: ClientOptions = {}): Client {
    return new Client({ address: this.#address, ...options });
  }

  /** On the same address as before. */
  async start(): Promise<void> {
    const program = process.env.PAUSEWATCH_PROGRAM;
    if (!program) throw new Error("PAUSEWATCH_PROGRAM must name a built pausewatch");
    const store = this.#durable ? ["--data-dir", join(this.#directory, "data")] : ["--store", "memory"];
    const listen = this.#address.replace("https://", "");
    const started = spawn(program, ["serve", "--listen", listen, ...store, ...this.#limits], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.#process = started;
    for await (const line of createInterface({ input: started.stdout })) {
      this.#address = line.replace("listening ", "");
      return;
    }
    throw new Error("pausewatch serve has ended");
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
    const stopped = this.#process;
    this.#process = undefined;
    if (stopped === undefined || stopped.exitCode !== null) return;
    const ended = once(stopped, "exit");
    stopped.kill(signal);
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Waits until `condition` holds, and says what it was. */
export async function until<T>(condition: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  const giveUp = performance.now() + 30_000;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > giveUp) throw new Error(`waited 30 s for ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
