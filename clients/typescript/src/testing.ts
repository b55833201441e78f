/**
 * A coordinator for the tests of programs that use this library: `pausewatch serve` with a memory store, on a free port.
 *
 * It is the real program, so counts, leases, watches and errors are the same as in production.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client, type ClientOptions } from "./client.js";
import { PausewatchError } from "./errors.js";

/** The options of a coordinator. */
export interface CoordinatorOptions {
  /** Further options of `pausewatch serve`, such as `["--max-pause", "10s"]`. */
  readonly options?: readonly string[];
  /** The path of the program. Default: `PAUSEWATCH_PROGRAM`, else `pausewatch` in the `PATH`, to which npm adds the programs of packages. */
  readonly program?: string | undefined;
}

/**
 * A coordinator that runs until it is stopped, its `await using` block ends, or this process ends. If a signal ends
 * this process, the coordinator continues: then Node emits no `exit` event.
 */
export class TestCoordinator implements AsyncDisposable {
  readonly #options: CoordinatorOptions;
  readonly #killAtExit = () => void this.#process?.kill("SIGKILL");
  #address = "127.0.0.1:0";
  #process: ChildProcess | undefined;

  private constructor(options: CoordinatorOptions) {
    this.#options = options;
  }

  /**
   * Starts a coordinator, and waits until it listens.
   *
   * @throws {PausewatchError} The program was not found, or does not start: the message has its error output.
   */
  static async start(options: CoordinatorOptions = {}): Promise<TestCoordinator> {
    const coordinator = new TestCoordinator(options);
    await coordinator.start();
    return coordinator;
  }

  /** Its address, the same after a stop and a start: for `PAUSEWATCH_ADDRESS` of the tested program. */
  get address(): string {
    return this.#address;
  }

  /** A new client of this coordinator. */
  client(options: ClientOptions = {}): Client {
    return new Client({ address: this.#address, ...options });
  }

  /**
   * Starts it again after a {@link stop}, without its previous state.
   *
   * @throws {PausewatchError} It is already running, or the errors of {@link TestCoordinator.start}.
   */
  async start(): Promise<void> {
    if (this.#process !== undefined) throw new PausewatchError("this coordinator is running");
    const program = (this.#options.program ?? process.env.PAUSEWATCH_PROGRAM) || "pausewatch";
    const listen = this.#address.replace("https://", "");
    const args = ["serve", "--listen", listen, "--store", "memory", ...(this.#options.options ?? [])];
    const started = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = started;
    process.once("exit", this.#killAtExit);
    let errors = "";
    started.stderr.on("data", (data) => {
      errors = `${errors}${data}`.slice(-10_000);
    });
    const failed = new Promise<never>((_, reject) => started.once("error", reject));
    const listening = once(createInterface({ input: started.stdout }), "line");
    const ended = once(started, "close").then(() => Promise.reject(new Error(errors.trim())));
    // Only the first of these counts; later rejections are ignored.
    for (const each of [failed, listening, ended]) each.catch(() => undefined);
    try {
      const [line] = await Promise.race([failed, listening, ended]);
      this.#address = line.replace("listening ", "");
    } catch (error) {
      await this.stop();
      const why = error instanceof Error ? error.message : String(error);
      throw new PausewatchError(
        `${program} does not start: ${why}; it must be on the PATH, or PAUSEWATCH_PROGRAM must name it`,
      );
    }
    // The coordinator must not keep this process alive.
    started.unref();
    for (const stream of [started.stdout, started.stderr]) (stream as unknown as { unref?(): void }).unref?.();
  }

  /** Kills the coordinator, as in a crash. Calling it again does nothing. */
  async stop(): Promise<void> {
    const stopped = this.#process;
    this.#process = undefined;
    process.removeListener("exit", this.#killAtExit);
    if (stopped?.pid === undefined || stopped.exitCode !== null || stopped.signalCode !== null) return;
    const ended = once(stopped, "exit");
    stopped.ref();
    stopped.kill("SIGKILL");
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
