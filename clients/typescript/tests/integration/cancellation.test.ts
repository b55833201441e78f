/** Calls, holds and watches that are cancelled together, and at any moment. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "../../src/index.js";
import { Coordinator, until } from "../support/coordinator.js";
import { event, FakeCoordinator, silence } from "../support/fake.js";

const run = promisify(execFile);
const [LIBRARY, FAKE] = ["../../src/index.js", "../support/fake.js"].map((file) => new URL(file, import.meta.url).href);

/** Which of the promises have failed, and how. */
async function failures(promises: readonly Promise<unknown>[]): Promise<string[]> {
  const results = await Promise.allSettled(promises);
  return results.map((result) => (result.status === "rejected" ? `${result.reason.message}` : "no error"));
}

test("several holds that are being opened are abandoned with their client, or with the signal that they share", async () => {
  /** Answers the increments that wait. */
  const answers: (() => void)[] = [];
  let increments = 0;
  const open = new Set<string>();
  await using fake = await FakeCoordinator.start({
    incrementElicitation: async ({ threadId, requestId }) => {
      increments++;
      await new Promise<void>((resolve) => answers.push(resolve));
      open.add(requestId);
      return { count: 1, elicitation: { elicitationId: requestId, threadId } };
    },
    decrementElicitation: ({ elicitationId }) => {
      open.delete(elicitationId ?? "");
      return { count: 0 };
    },
    async *watch() {
      yield event.snapshotComplete();
      await silence;
    },
  });
  const whileTheyOpen = async (end: (client: Client, abort: AbortController) => void): Promise<string[]> => {
    using client = new Client({ address: fake.address });
    const abort = new AbortController();
    increments = 0;
    const watch = client.watch(["t"], { signal: abort.signal });
    await watch.next();
    const next = watch.next();
    next.catch(() => undefined);
    const holds = [1, 2, 3].map(() => client.hold("t", { signal: abort.signal }));
    for (const hold of holds) hold.catch(() => undefined);
    await until(() => increments === 3);
    end(client, abort);
    const failed = await failures(holds);
    for (const answer of answers.splice(0)) answer();
    await client.close();
    return failed;
  };
  const aborted = await whileTheyOpen((_, abort) => abort.abort(new Error("not any more")));
  assert.deepEqual(aborted, new Array(3).fill("not any more"));
  assert.equal(open.size, 0);
  const closed = await whileTheyOpen((client) => void client.close());
  assert.deepEqual(closed, new Array(3).fill("the client is closed"));
  assert.equal(open.size, 0);
});

test("a call, a watch and a hold notice an abort in any microtask after they began", async () => {
  let watches = 0;
  await using fake = await FakeCoordinator.start({
    getPauseState: () => silence,
    incrementElicitation: () => silence,
    async *watch(_, { signal }) {
      watches++;
      try {
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        yield event.snapshotComplete();
      } finally {
        watches--;
      }
    },
  });
  using client = new Client({ address: fake.address, token: () => "token", deadlineMs: 8_000 });
  for (let ticks = 0; ticks < 60; ticks++) {
    const abort = new AbortController();
    const { signal } = abort;
    const ending = failures([
      client.getPauseState({ threadId: "t" }, { signal }),
      client.hold("t", { signal }),
      client.watch(["t"], { signal }).next(),
    ]);
    for (let tick = 0; tick < ticks; tick++) await undefined;
    abort.abort(new Error("enough"));
    assert.deepEqual(await ending, new Array(3).fill("enough"), `aborted after ${ticks} microtasks`);
  }
  // Abandoned streams would stay open for as long as the client.
  await until(() => watches === 0);
});

test("any number of calls may share a signal", async () => {
  const warnings: string[] = [];
  const warn = ({ message }: Error) => warnings.push(message);
  process.on("warning", warn);
  using client = new Client({ address: "unix:/nowhere", logger: { info: () => undefined, warn: () => undefined } });
  const abort = new AbortController();
  const { signal } = abort;
  const watches = Array.from({ length: 8 }, () => client.watch(["t"], { signal }));
  for (const watch of watches) assert.equal((await watch.next()).value?.type, "disconnected");
  const ending = failures([
    ...watches.map((watch) => watch.next()),
    ...watches.map(() => client.getPauseState({ threadId: "t" }, { signal })),
    ...watches.map(() => client.hold("t", { signal })),
  ]);
  await sleep(50);
  assert.equal(getEventListeners(signal, "abort").length, 1);
  abort.abort(new Error("enough"));
  assert.deepEqual(new Set(await ending), new Set(["enough"]));
  process.off("warning", warn);
  assert.deepEqual([warnings, getEventListeners(signal, "abort").length], [[], 0]);
});

test("a hold of a closed client is overdue at once, unless it is released", async () => {
  await using coordinator = await Coordinator.start();
  const client = coordinator.client();
  const [kept, released, releasing] = await Promise.all(
    ["t", "u", "v"].map((threadId) => client.hold(threadId, { ttlMs: 3_600_000 })),
  );
  assert.ok(kept !== undefined && released !== undefined && releasing !== undefined);
  const lost = kept.lost();
  await released.release();
  const release = releasing.release();
  await client.close();
  assert.equal((await release).ending, "closed");
  assert.deepEqual(
    [await lost, kept.lease, released.lease, releasing.lease],
    ["overdue", "overdue", "released", "released"],
  );
});

test("clients that are closed when a call is answered, many times in one process", async () => {
  // In a process of its own: Node itself may be aborted. The last client is closed before the process exits.
  const source = `import { Client } from ${JSON.stringify(LIBRARY)};
    import { event, FakeCoordinator, silence } from ${JSON.stringify(FAKE)};
    const handlers = {
      getPauseState: () => ({ pauseState: { threadId: "t" } }),
      async *watch() { yield event.snapshotComplete(); await silence; },
    };
    const [fake, other] = await Promise.all([1, 2].map(() => FakeCoordinator.start(handlers)));
    for (const address of [fake.address, fake.address + "," + other.address]) {
      for (let i = 0; i < 150; i++) {
        const client = new Client({ address });
        const timeout = client.startTimeout(60_000, { threadId: "t" });
        await client.getPauseState({ threadId: "t" });
        const closed = client.close();
        timeout[Symbol.dispose]();
        if (i % 2) await closed;
      }
    }
    console.log("survived");
    process.exit();`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", source], { timeout: 200_000 });
  assert.equal(stdout, "survived\n");
});
