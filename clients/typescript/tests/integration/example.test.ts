import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Coordinator, until } from "../support/coordinator.js";

function start(example: "approve" | "run", address: string, ...options: string[]) {
  const environment = { ...process.env, PAUSEWATCH_ADDRESS: address, PAUSEWATCH_THREAD_ID: "t" };
  const path = fileURLToPath(new URL(`../../examples/${example}.js`, import.meta.url));
  const program = spawn(process.execPath, [path, ...options], { env: environment });
  const ended = Promise.all([once(program, "close"), text(program.stdout), text(program.stderr)]);
  return { program, ended: ended.then(([[code], out, err]) => ({ code, out, err })) };
}

test("an answer at the terminal decides the exit code, and the thread is paused meanwhile", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  for (const [typed, code, said] of [
    ["y\n", 0, /approved\n$/],
    ["no\n", 1, /declined\n$/],
    ["", 2, /approve: no answer/],
  ] as const) {
    const { program, ended } = start("approve", coordinator.address, "Push", "it?");
    const { elicitations } = await until(async () => {
      const state = await client.getPauseState({ threadId: "t" });
      return state.paused && state;
    });
    assert.equal(elicitations[0]?.reason, "Push it?");
    program.stdin.end(typed);
    const { code: exit, out, err } = await ended;
    assert.equal(exit, code, err);
    assert.match(out + err, said);
    assert.equal((await client.getPauseState({ threadId: "t" })).count, 0);
  }
});

test("a script answers by itself", async () => {
  await using coordinator = await Coordinator.start();
  assert.equal((await start("approve", coordinator.address, "--answer-after", "0.1").ended).code, 0);
});

test("an answer after the lease is reported as late", async () => {
  await using coordinator = await Coordinator.start({ durable: true });
  using client = coordinator.client();
  const { program, ended } = start("approve", coordinator.address, "--answer-after", "3", "--ttl", "1");
  await until(async () => (await client.getPauseState({ threadId: "t" })).paused);
  // Stopped, as a laptop that is closed: it renews nothing.
  program.kill("SIGSTOP");
  await until(async () => !(await client.getPauseState({ threadId: "t" })).paused);
  program.kill("SIGCONT");
  const { code, err } = await ended;
  assert.equal(code, 2);
  assert.match(err, /the answer came too late/);
});

test("a missing coordinator is an error", async () => {
  const { code, err } = await start("approve", "127.0.0.1:1").ended;
  assert.equal(code, 2);
  assert.match(err, /ECONNREFUSED/);
});

test("a command runs under a limit that stands still while a person is asked", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const sleeps = (ms: number) => [process.execPath, "-e", `setTimeout(() => process.exit(7), ${ms})`];
  assert.equal((await start("run", coordinator.address, "20000", ...sleeps(1)).ended).code, 7);
  assert.equal((await start("run", coordinator.address, "300", ...sleeps(20_000)).ended).code, 124);
  const code = await client.withHold("t", {}, async () => {
    return (await start("run", coordinator.address, "300", ...sleeps(1_500)).ended).code;
  });
  assert.equal(code, 7);
  assert.equal((await start("run", coordinator.address, "300", "/no/such/program").ended).code, 125);
});
