/** What keeps a process alive, and what does not. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Coordinator, until } from "../support/coordinator.js";

const LIBRARY = new URL("../../src/index.js", import.meta.url).href;
const run = promisify(execFile);

/** Runs a program that has the library at hand; gives its output when it has ended by itself. */
async function program(address: string, text: string, environment: Record<string, string> = {}): Promise<string> {
  const source = `import * as pausewatch from ${JSON.stringify(LIBRARY)};
    const client = new pausewatch.Client({ address: ${JSON.stringify(address)} });
    ${text}`;
  const env = { ...process.env, ...environment };
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", source], { timeout: 20_000, env });
  return stdout.trim();
}

test("an open client, a hold and a timeout let the process end", async () => {
  await using coordinator = await Coordinator.start();
  const output = await program(
    coordinator.address,
    `const hold = await client.hold("t", { ttlMs: 60_000 });
     const signal = client.pausableTimeout(60_000, { threadId: "t" });
     const timeout = client.startTimeout(60_000, { threadId: "t" });
     while (!timeout.linked) await client.getPauseState({ threadId: "t" });
     const started = performance.now();
     process.on("exit", () => console.log(performance.now() - started < 5_000 ? "soon" : "late"));`,
  );
  assert.equal(output, "soon");
});

test("a timeout without a coordinator and the shared client let the process end too", async () => {
  const output = await program(
    "127.0.0.1:1",
    `client.pausableTimeout(60_000, { threadId: "t" });
     pausewatch.pausableTimeout(60_000);
     try { pausewatch.pausableTimeout(1, { threadId: "" }) } catch (error) { console.log(error.name) }
     setTimeout(() => console.log("end"), 500);`,
    { PAUSEWATCH_ADDRESS: "127.0.0.1:1", PAUSEWATCH_THREAD_ID: "t" },
  );
  assert.equal(output, "InvalidFieldError\nend");
});

test("a call keeps it alive until it is done", async () => {
  await using coordinator = await Coordinator.start();
  assert.equal(
    await program(coordinator.address, `client.getPauseState({ threadId: "t" }).then(() => console.log("done"));`),
    "done",
  );
});

test("a call that was ended does not keep it alive, whatever it was waiting for", async () => {
  const output = await program(
    "127.0.0.1:1",
    `const token = () => new Promise(() => undefined);
     const ending = new AbortController();
     const other = new pausewatch.Client({ address: "127.0.0.1:1", token, deadlineMs: 3_600_000 });
     setTimeout(() => ending.abort());
     other.getPauseState({ threadId: "t" }, { signal: ending.signal }).catch(({ name }) => console.log(name));`,
  );
  assert.equal(output, "AbortError");
});

test("a process that exits after a close has finished the releases that were under way", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const lossy = `const lossy = (next) => (request) =>
      request.method.name === "DecrementElicitation" && !lost++ ? Promise.reject(new Error("lost")) : next(request);
    let lost = 0;
    const other = new pausewatch.Client({ address: client.address, retries: 0, interceptors: [lossy] });`;
  const closing = [
    'const hold = await client.hold("t"); hold.release(); await client.close();',
    'const hold = await client.hold("t"); hold.release(); await client[Symbol.asyncDispose]();',
    `${lossy} const hold = other.hold("t"); hold.catch(() => undefined); await other.close();`,
  ];
  for (const text of closing) {
    const { revision } = await client.getPauseState({ threadId: "t" });
    await program(coordinator.address, `${text} process.exit();`);
    const after = await client.getPauseState({ threadId: "t" });
    assert.deepEqual([after.count, after.revision > revision], [0, true], text);
  }
});

test("a close keeps it alive for a release in the background, for one deadline", async () => {
  await using coordinator = await Coordinator.start();
  const output = await program(
    coordinator.address,
    `let decrements = 0;
     const silent = (next) => (request) => {
       if (request.method.name !== "DecrementElicitation") return next(request);
       return decrements++ === 0 ? Promise.reject(new Error("lost")) : new Promise(() => undefined);
     };
     const other = new pausewatch.Client({ address: client.address, deadlineMs: 1_000, retries: 0, interceptors: [silent] });
     const hold = await other.hold("t", { ttlMs: 60_000 });
     await hold[Symbol.asyncDispose]();
     const started = performance.now();
     await Promise.all([other.close(), other.close()]);
     const took = performance.now() - started;
     console.log(decrements, took > 990 && took < 10_000 ? "one deadline" : took);`,
  );
  assert.equal(output, "2 one deadline");
});

test("a watch keeps it alive until it is closed", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const watching = program(
    coordinator.address,
    `for await (const { state } of client.watch(["t", "probe"])) if (state?.threadId === "t" && state.paused) break;
     console.log("closed");`,
  );
  await until(async () => (await client.incrementElicitation({ threadId: "probe" })).watchers === 1);
  await sleep(500);
  await client.incrementElicitation({ threadId: "t" });
  assert.equal(await watching, "closed");
});

test("an error of a listener is an uncaught error of the program, and other timeouts still expire", async () => {
  await using coordinator = await Coordinator.start();
  const output = await program(
    coordinator.address,
    `process.on("uncaughtException", ({ message }) => console.log(message));
     const [first, second] = [1, 2].map(() => client.pausableTimeout(100, { threadId: "t" }));
     first.addEventListener("abort", () => { throw new Error("thrown") });
     const alive = setTimeout(() => undefined, 10_000);
     second.addEventListener("abort", () => { console.log("aborted"); clearTimeout(alive); });`,
  );
  assert.deepEqual(output.split("\n").sort(), ["aborted", "thrown"]);
});
