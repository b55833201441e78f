// A client of Codex's app-server, over the standard streams of a process or over a Unix socket.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const { WebSocket } = await import(process.env.PAUSEWATCH_WS);

/** Waits. The deadline ends a test that hangs; a slow machine does not reach it. */
export async function until(found, what) {
  const end = performance.now() + 180_000;
  while (!(await found())) {
    if (performance.now() > end) throw new Error(`180 s without this: ${what}`);
    await new Promise((retry) => setTimeout(retry, 50));
  }
}

export class Client {
  /** Answers the app-server's requests; by default, they stay open. */
  onRequest = () => {};
  #send;
  #lastId = 0;
  #calls = new Map();
  #notifications = [];
  #waiting = [];

  /** The client of a process that uses the protocol over its standard streams. */
  static ofProcess(command, args, options) {
    const client = new Client();
    client.process = spawn(command, args, { ...options, stdio: "pipe" });
    client.process.stderr.pipe(process.stderr, { end: false });
    client.closed = new Promise((closed) => client.process.stderr.once("close", closed));
    client.ended = new Promise((ended) => client.process.once("exit", (code, signal) => ended({ code, signal })));
    client.process.stdin.on("error", () => {});
    client.#send = (text) => client.process.stdin.write(`${text}\n`);
    createInterface({ input: client.process.stdout }).on("line", (line) => client.#receive(line));
    return client;
  }

  /** A client of a listening app-server, which may not listen yet. */
  static async ofSocket(path) {
    for (;;) {
      const client = new Client();
      const socket = new WebSocket(`ws+unix://${path}:/`);
      client.#send = (text) => socket.send(text);
      client.close = () => socket.close();
      socket.on("message", (data) => client.#receive(data.toString()));
      const opened = await new Promise((done) => socket.once("open", () => done(true)).once("error", () => done(false)));
      if (opened) return client;
      await new Promise((retry) => setTimeout(retry, 50));
    }
  }

  /** The result of a call. */
  async call(method, params) {
    const id = ++this.#lastId;
    const answer = await new Promise((answered) => {
      this.#calls.set(id, answered);
      this.#send(JSON.stringify({ id, method, params }));
    });
    if (answer.error) throw new Error(`${method}: ${answer.error.message}`);
    return answer.result;
  }

  answer(id, result) {
    this.#send(JSON.stringify({ id, result }));
  }

  async initialize(capabilities) {
    const clientInfo = { name: "test", title: "test", version: "1" };
    const result = await this.call("initialize", { clientInfo, capabilities });
    this.#send(JSON.stringify({ method: "initialized" }));
    return result;
  }

  /** The next notification of this method, also one that has already arrived. */
  async notification(method) {
    const index = this.#notifications.findIndex((one) => one.method === method);
    if (index >= 0) return this.#notifications.splice(index, 1)[0].params;
    return new Promise((resolve) => this.#waiting.push({ method, resolve }));
  }

  async startThread(cwd) {
    return (await this.call("thread/start", { cwd })).thread.id;
  }

  /** Starts a turn, whose message the model gets. */
  async say(threadId, text) {
    await this.call("turn/start", { threadId, input: [{ type: "text", text }] });
  }

  /** The number of questions that Codex counts in this thread. It has no call that only reads. */
  async count(threadId) {
    const { count } = await this.call("thread/increment_elicitation", { threadId });
    await this.call("thread/decrement_elicitation", { threadId });
    return count - 1;
  }

  /** Waits until Codex counts this many questions. */
  async countBecomes(threadId, expected) {
    await until(async () => (await this.count(threadId)) === expected, `a count of ${expected}`);
  }

  #receive(text) {
    const message = JSON.parse(text);
    if (message.method === undefined) {
      this.#calls.get(message.id)?.(message);
      // A message that answers none of our calls is an error of the bridge.
      if (!this.#calls.delete(message.id)) throw new Error(`an answer to nobody: ${text}`);
    } else if (message.id !== undefined) {
      this.onRequest(message);
    } else {
      const index = this.#waiting.findIndex(({ method }) => method === message.method);
      if (index >= 0) this.#waiting.splice(index, 1)[0].resolve(message.params);
      else this.#notifications.push(message);
    }
  }
}
