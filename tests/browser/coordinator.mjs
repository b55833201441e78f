// A real coordinator, and commands against it.
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const PROGRAM = process.env.PAUSEWATCH_PROGRAM ?? "pausewatch";
export const SERVICE = "/pausewatch.v1.ElicitationService/";

/** The tests do not use the settings of the person who runs them. */
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(PAUSEWATCH|OTEL)_/.test(name)));

export class Coordinator {
  /** Starts `pausewatch serve ...options`. Port 0: a free one. */
  static async start(options = [], port = 0) {
    const made = new Coordinator();
    made.directory = mkdtempSync(join(tmpdir(), "pausewatch-browser-"));
    made.options = options;
    await made.#serve(port);
    return made;
  }

  async #serve(port) {
    const env = { ...environment, HOME: this.directory, XDG_CONFIG_HOME: this.directory, PAUSEWATCH_DATA_DIR: join(this.directory, "data") };
    this.env = env;
    const options = ["serve", "--listen", `127.0.0.1:${port}`, "--metrics-listen", "127.0.0.1:0", ...this.options];
    this.child = spawn(PROGRAM, options, { env, cwd: this.directory, stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    this.ended = new Promise((resolve) => this.child.once("close", resolve));
    this.child.once("error", (error) => (log += error));
    this.child.stderr.on("data", (text) => (log = (log + text).slice(-4000)));
    const said = new Map();
    for await (const line of createInterface({ input: this.child.stdout })) {
      const [what, where] = line.split(" ");
      said.set(what, where);
      if (said.has("listening") && said.has("metrics")) break;
    }
    if (!said.has("metrics")) throw new Error(`pausewatch serve did not start:\n${log}`);
    this.child.stdout.resume();
    this.address = said.get("listening");
    this.metricsUrl = said.get("metrics");
    this.port = Number(this.address.split(":").at(-1));
    this.url = `http://${this.address}/`;
  }

  /** kill -9. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** Starts it again at the same address. */
  async restart() {
    await this.#serve(this.port);
  }

  async stop() {
    await this.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Runs `pausewatch ...words`, and returns its output. */
  async run(...words) {
    const env = { ...this.env, PAUSEWATCH_ADDRESS: this.address };
    const { stdout } = await promisify(execFile)(PROGRAM, words, { env, cwd: this.directory, maxBuffer: 1 << 26 });
    return stdout.trim();
  }

  /** Opens an elicitation, and returns its id. */
  increment(thread, holder, reason, ...more) {
    return this.run("increment", "--thread-id", thread, "--holder", holder, "--reason", reason, ...more);
  }

  /** Starts `pausewatch ...words`; the caller kills it. */
  begin(...words) {
    const env = { ...this.env, PAUSEWATCH_ADDRESS: this.address };
    return spawn(PROGRAM, words, { env, cwd: this.directory, stdio: "ignore" });
  }

  /** Makes a call with the Connect protocol; returns its status and its answer. */
  async call(method, message, headers = {}) {
    const body = JSON.stringify(message);
    const response = await fetch(new URL(SERVICE + method, this.url), { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
    return { status: response.status, answer: await response.json() };
  }

  /** The threads that are paused. */
  async paused() {
    const { answer } = await this.call("ListPauseStates", {});
    return (answer.pauseStates ?? []).map(({ threadId }) => threadId);
  }

  /** The value of a sample of the metrics. */
  async metric(name) {
    const text = await (await fetch(this.metricsUrl)).text();
    return Number(text.split("\n").find((line) => line.startsWith(`${name} `))?.split(" ")[1]);
  }
}
