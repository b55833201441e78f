// `pausewatch bridge codex` between a client and the real Codex 0.169.0.
//
// The limit is the time after which Codex's `exec_command` reports that its command still runs. The test pauses a
// thread until its command asks, so that a slow start does not use up the limit, and it ends the question. The test
// waits for counts without timing them; the time limit of the whole test ends one that hangs.
// hang is ended by the time limit of the whole test.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, until } from "./client.mjs";
import { Model } from "./mock.mjs";

const program = process.env.PAUSEWATCH_PROGRAM;
const codex = process.env.PAUSEWATCH_CODEX;
/** The limit of a command that finishes: its work after the answer takes a fraction of that. */
const LIMIT_MS = 12_000;
/** The limit of a command that hangs. */
const SHORT_LIMIT_MS = 2_000;
/** The limit of a command that no test waits for; Codex allows at most 30 s. */
const LONG_LIMIT_MS = 30_000;
/** By how much a question exceeds the limit. */
const BEYOND_MS = 1_500;

/** A coordinator, a model, and a home for Codex; all end with the test. */
class Stage {
  model = new Model();
  directory = mkdtempSync(path.join(tmpdir(), "pausewatch-codex-"));
  address = `unix:${path.join(this.directory, "coordinator")}`;
  socket = path.join(this.directory, "codex.sock");
  #processes = [];

  static async prepare(t, { approvals = "never", sandbox = "danger-full-access" } = {}) {
    const stage = new Stage();
    t.after(() => stage.end());
    stage.environment = { ...process.env, CODEX_HOME: stage.directory, PAUSEWATCH_ADDRESS: stage.address, PROGRAM: program };
    delete stage.environment.PAUSEWATCH_THREAD_ID;
    const config = `
      model = "mock"
      model_provider = "mock"
      approval_policy = "${approvals}"
      sandbox_mode = "${sandbox}"
      check_for_update_on_startup = false
      [analytics]
      enabled = false
      [model_providers.mock]
      name = "mock"
      base_url = "${await stage.model.listen()}"
      wire_api = "responses"
      request_max_retries = 0
      stream_max_retries = 0
    `;
    writeFileSync(path.join(stage.directory, "config.toml"), config);
    await stage.startCoordinator();
    return stage;
  }

  async startCoordinator() {
    const data = path.join(this.directory, "data");
    const stdio = ["ignore", "pipe", "ignore"];
    this.coordinator = this.#spawn(program, ["serve", "--listen", this.address, "--data-dir", data], stdio);
    await new Promise((listening) => this.coordinator.stdout.once("data", listening));
  }

  #spawn(command, args, stdio) {
    // In its own process group, because killing Codex's launcher does not end Codex.
    return this.#add(spawn(command, args, { env: this.environment, stdio, detached: true }));
  }

  #add(started) {
    this.#processes.push({ started, ended: new Promise((ended) => started.once("close", ended)) });
    return started;
  }

  /** The client of an app-server inside the wrapper. */
  async wrapped(options = [], capabilities) {
    const args = ["bridge", "codex", ...options, "--", codex, "app-server"];
    const client = Client.ofProcess(program, args, { env: this.environment, detached: true });
    this.#add(client.process);
    await client.initialize(capabilities);
    return client;
  }

  /** An app-server that listens on the socket, and its client. */
  async listening() {
    const stdio = ["ignore", "ignore", "inherit"];
    this.appServer = this.#spawn(codex, ["app-server", "--listen", `unix://${this.socket}`], stdio);
    const client = await Client.ofSocket(this.socket);
    await client.initialize({ experimentalApi: true });
    return client;
  }

  /** Kills the app-server that listens, with its launcher. */
  async killAppServer() {
    const ended = new Promise((closed) => this.appServer.once("close", closed));
    process.kill(-this.appServer.pid, "SIGKILL");
    await ended;
  }

  /** The client of an app-server that listens on a socket, and a bridge beside it. */
  async beside(options = []) {
    const stdio = ["ignore", "ignore", "inherit"];
    const client = await this.listening();
    this.bridge = this.#spawn(program, ["bridge", "codex", "--socket", this.socket, ...options], stdio);
    this.bridgeEnded = new Promise((ended) => this.bridge.once("exit", (code, signal) => ended({ code, signal })));
    return client;
  }

  /** A message whose command asks a person and then runs `then`. */
  asking(limitMs, then) {
    const waits = `[ -d ${this.directory} ] && [ ! -e ${this.#file("answered")} ]`;
    const question = `touch ${this.#file("asked")}; while ${waits}; do sleep 0.05; done`;
    return `run ${limitMs} "$PROGRAM" hold --thread-id "$CODEX_THREAD_ID" --reason "Push?" -- sh -c '${question}'; ${then}`;
  }

  #file(name) {
    return path.join(this.directory, name);
  }

  async asked() {
    await until(() => existsSync(this.#file("asked")), "a question");
  }

  answer() {
    writeFileSync(this.#file("answered"), "");
  }

  /** The output of `pausewatch ...args`. */
  async pausewatch(...args) {
    const ran = spawn(program, args, { env: this.environment, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    for await (const chunk of ran.stdout) output += chunk;
    return output;
  }

  async end() {
    this.answer();
    for (const { started } of this.#processes) {
      try {
        process.kill(-started.pid, "SIGKILL");
      } catch {
        // The process has already ended.
      }
    }
    await Promise.all(this.#processes.map(({ ended }) => ended));
    this.model.close();
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

/** A new thread that the bridge follows. The test has paused it, which shows that the bridge is connected. */
async function followedThread(stage, client) {
  const threadId = await client.startThread(stage.directory);
  const pause = (await stage.pausewatch("increment", "--ttl", "1h", "--thread-id", threadId)).trim();
  await client.countBecomes(threadId, 1);
  return { threadId, resume: () => stage.pausewatch("decrement", "--thread-id", threadId, pause) };
}

/** Starts a command that needs an approval, and returns when Codex waits for it. */
async function needApproval(stage, client) {
  const { threadId, resume } = await followedThread(stage, client);
  await resume();
  await client.countBecomes(threadId, 0);
  const asked = new Promise((request) => (client.onRequest = request));
  await client.say(threadId, `escalate ${LONG_LIMIT_MS} echo finished`);
  const { id } = await asked;
  await client.countBecomes(threadId, 1);
  return { threadId, id };
}

/** Starts a command that asks in a new thread; returns when its question alone pauses the thread. */
async function ask(stage, client, limitMs, then) {
  const { threadId, resume } = await followedThread(stage, client);
  await client.say(threadId, stage.asking(limitMs, then));
  await stage.asked();
  await resume();
  return threadId;
}

/** Lets a question take longer than the limit; returns Codex's report about the command. */
async function outlast(stage, client, limitMs, then) {
  await ask(stage, client, limitMs, then);
  // Real time is tested.
  await sleep(limitMs + BEYOND_MS);
  assert.deepEqual(stage.model.outputs, [], "nothing is reported during the question");
  stage.answer();
  await client.notification("turn/completed");
  assert.equal(stage.model.outputs.length, 1, "the command is reported once");
  return stage.model.outputs[0];
}

for (const how of ["wrapped", "beside"]) {
  test(`${how}: a question outlasts the limit, and the command answers once`, async (t) => {
    const stage = await Stage.prepare(t);
    const client = await stage[how]();
    const text = await outlast(stage, client, LIMIT_MS, "echo finished");
    assert.match(text, /Process exited with code 0[^]*finished/);
    if (how === "beside") return;
    client.process.stdin.end();
    assert.deepEqual(await client.ended, { code: 0, signal: null });
  });

  test(`${how}: a hang after the question is still reported`, async (t) => {
    const stage = await Stage.prepare(t);
    const client = await stage[how]();
    const text = await outlast(stage, client, SHORT_LIMIT_MS, "exec sleep 1000");
    assert.match(text, /Process running with session ID/);
  });

  test(`${how}: a coordinator that is killed during a question freezes a thread for the grace only`, async (t) => {
    const stage = await Stage.prepare(t);
    const client = await stage[how](["--disconnect-grace", "500ms"], { experimentalApi: true });
    const threadId = await ask(stage, client, LONG_LIMIT_MS, "echo finished");
    await client.countBecomes(threadId, 1);
    stage.coordinator.kill("SIGKILL");
    await client.countBecomes(threadId, 0);
    await stage.startCoordinator();
    await client.countBecomes(threadId, 1);
    stage.answer();
    await client.countBecomes(threadId, 0);
  });

  test(`${how}: Codex's own approvals are published`, async (t) => {
    const stage = await Stage.prepare(t, { approvals: "on-request", sandbox: "workspace-write" });
    const client = await stage[how](["--publish"]);
    const { threadId, id } = await needApproval(stage, client);
    assert.match(await stage.pausewatch("list"), new RegExp(`${threadId} .* codex +Codex waits for an approval`));
    client.answer(id, { decision: "accept" });
    await client.countBecomes(threadId, 0);
    await client.notification("turn/completed");
    assert.match(stage.model.outputs[0], /finished/);
    assert.match(await stage.pausewatch("get", "--thread-id", threadId), /running/);
  });
}

test("a wrapper that is terminated or killed during a question leaves no app-server", async (t) => {
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    const stage = await Stage.prepare(t);
    const client = await stage.wrapped();
    const threadId = await ask(stage, client, LONG_LIMIT_MS, "echo finished");
    await client.countBecomes(threadId, 1);
    client.process.kill(signal);
    // The app-server shares the standard error, which closes when both have ended.
    await client.closed;
  }
});

test("a bridge that is terminated or killed during a question leaves no thread frozen", async (t) => {
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    const stage = await Stage.prepare(t);
    const client = await stage.beside();
    const threadId = await ask(stage, client, LONG_LIMIT_MS, "echo finished");
    await client.countBecomes(threadId, 1);
    stage.bridge.kill(signal);
    const ended = await stage.bridgeEnded;
    assert.deepEqual(ended, signal === "SIGTERM" ? { code: 0, signal: null } : { code: null, signal });
    await client.countBecomes(threadId, 0);
  }
});

test("an app-server that is killed while it waits for an approval leaves nothing paused, and the bridge finds the next one", async (t) => {
  const stage = await Stage.prepare(t, { approvals: "on-request", sandbox: "workspace-write" });
  const client = await stage.beside(["--publish"]);
  const { threadId } = await needApproval(stage, client);
  await stage.killAppServer();
  const get = () => stage.pausewatch("get", "--thread-id", threadId);
  await until(async () => (await get()).includes("running"), "the end of what was published");
  const next = await stage.listening();
  const nextId = await next.startThread(stage.directory);
  await stage.pausewatch("increment", "--thread-id", nextId);
  await next.countBecomes(nextId, 1);
});
