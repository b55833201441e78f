import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, LimitExceededError, type PauseState, type Watch, type WatchEvent } from "../../src/index.js";
import { settled } from "../support/clock.js";
import { Coordinator, until } from "../support/coordinator.js";
import { event, FakeCoordinator, silence } from "../support/fake.js";
import { limited } from "../support/limited.js";

async function next(watch: Watch): Promise<WatchEvent> {
  const { value } = await watch.next();
  assert.ok(value !== undefined);
  return value;
}

async function state(watch: Watch) {
  const event = await next(watch);
  assert.equal(event.type, "state");
  return event;
}

/** The next event in short: `a 6 running gap`. */
async function told(watch: Watch): Promise<string> {
  const event = await next(watch);
  if (event.type !== "state") return event.type;
  const { threadId, revision, paused } = event.state;
  return `${threadId} ${revision} ${paused ? "paused" : "running"}${event.gap ? " gap" : ""}`;
}

/** A coordinator whose streams say what a test writes into them, one stream after the other, and that answers as the test says. */
async function scripted(answer: () => Promise<Pick<PauseState, "revision" | "paused">>) {
  const streams = Array.from({ length: 3 }, () => new PassThrough({ objectMode: true }));
  const waiting = [...streams];
  const fake = await FakeCoordinator.start({
    async *watchPauseState() {
      yield* waiting.shift() ?? [];
    },
    async getPauseState({ threadId }) {
      return { pauseState: { threadId, ...(await answer()) } };
    },
  });
  return { fake, streams: streams as [PassThrough, PassThrough, PassThrough] };
}

async function type(watch: Watch) {
  return (await next(watch)).type;
}

test("a watch gives a snapshot, then changes, and leaves no stream behind", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  for await (const event of client.watch(["t"], { includeElicitations: true })) {
    if (event.type === "snapshotComplete") await client.incrementElicitation({ threadId: "t", reason: "Push?" });
    if (event.type !== "state" || !event.state.paused) continue;
    assert.deepEqual([event.gap, event.changed, event.state.elicitations[0]?.reason], [false, true, "Push?"]);
    break;
  }
  await until(async () => (await client.incrementElicitation({ threadId: "t" })).watchers === 0);
});

test("it heals after a restart, and says what it may have missed", async () => {
  await using coordinator = await Coordinator.start({ durable: true });
  using client = coordinator.client();
  await client.incrementElicitation({ threadId: "t" });
  await using watch = client.watch(["t"]);
  const first = await state(watch);
  assert.deepEqual([first.gap, first.changed], [true, true]);
  assert.equal(await type(watch), "snapshotComplete");
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    await coordinator.stop(signal);
    const cut = await next(watch);
    assert.ok(cut.type === "disconnected" && cut.threadIds.join() === "t" && cut.error.transient);
    await coordinator.start();
    const again = await state(watch);
    assert.deepEqual([again.gap, again.changed, again.state.revision], [true, false, first.state.revision]);
    assert.equal(await type(watch), "snapshotComplete");
  }
});

test("a watch of all tells what resumed in the gap", async () => {
  await using coordinator = await Coordinator.start({ durable: true });
  using client = coordinator.client();
  for (const threadId of ["stays", "resumes"]) await client.incrementElicitation({ threadId });
  await using watch = client.watch();
  assert.deepEqual([await type(watch), await type(watch), await type(watch)], ["state", "state", "snapshotComplete"]);
  await coordinator.stop();
  assert.equal(await type(watch), "disconnected");
  const decrement = client.decrementElicitation({ threadId: "resumes" });
  await coordinator.start();
  await decrement;
  const told = new Map<string, number>();
  for (let event = await next(watch); event.type === "state"; event = await next(watch)) {
    told.set(event.state.threadId, event.state.count);
  }
  assert.deepEqual([told.get("stays"), told.get("resumes")], [1, 0]);
});

for (const paused of [false, true]) {
  const state = paused ? "paused" : "running";
  test(`g6: what was asked for after a break, ${state}, is not followed by older states`, async () => {
    const { fake, streams } = await scripted(async () => ({ revision: 6n, paused }));
    await using _ = fake;
    using client = new Client({ address: fake.address });
    await using watch = client.watch();
    const [first, second, third] = streams;
    first.write(event.state({ threadId: "a", revision: 1n, paused: true }));
    first.end(event.snapshotComplete());
    second.write(event.snapshotComplete());
    assert.equal(await told(watch), "a 1 paused gap");
    assert.equal(await told(watch), "snapshotComplete");
    assert.equal(await told(watch), "disconnected");
    assert.equal(await told(watch), `a 6 ${state} gap`);
    assert.equal(await told(watch), "snapshotComplete");
    // The stream was behind the answer.
    for (let revision = 2n; revision <= 6n; revision++) {
      second.write(event.state({ threadId: "a", revision, paused: revision % 2n === 1n }));
    }
    second.write(event.state({ threadId: "b", revision: 1n, paused: true }));
    assert.equal(await told(watch), "b 1 paused");
    second.write(event.state({ threadId: "a", revision: 7n, paused: true }));
    assert.equal(await told(watch), "a 7 paused");
    second.end();
    assert.equal(await told(watch), "disconnected");
    third.write(event.state({ threadId: "a", revision: 3n, paused: true }));
    third.write(event.snapshotComplete());
    assert.equal(await told(watch), "a 3 paused gap", "after the next break nothing is held back");
  });
}

test("of everything, what the stream tells first needs no answer", async () => {
  let answered = (_: Pick<PauseState, "revision" | "paused">) => {};
  let questions = 0;
  const { fake, streams } = await scripted(() => {
    questions++;
    return new Promise((resolve) => {
      answered = resolve;
    });
  });
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch();
  const [first, second, third] = streams;
  first.write(event.state({ threadId: "a", revision: 1n, paused: true }));
  first.end(event.snapshotComplete());
  second.write(event.snapshotComplete());
  while ((await told(watch)) !== "disconnected");
  await until(() => questions === 1);
  second.write(event.state({ threadId: "a", revision: 3n, paused: true }));
  assert.equal(await told(watch), "a 3 paused gap");
  answered({ revision: 2n, paused: false });
  assert.equal(await told(watch), "snapshotComplete");
  second.end();
  assert.equal(await told(watch), "disconnected");
  third.write(event.snapshotComplete());
  // It is still known as paused.
  await until(() => questions === 2);
  third.write(event.state({ threadId: "a", revision: 5n, paused: true }));
  assert.equal(await told(watch), "a 5 paused gap");
  third.write(event.state({ threadId: "a", revision: 6n }));
  assert.equal(await told(watch), "a 6 running");
  answered({ revision: 8n, paused: false });
  assert.equal(await told(watch), "snapshotComplete");
  third.write(event.state({ threadId: "a", revision: 7n, paused: true }));
  assert.equal(await told(watch), "a 7 paused", "the stream goes on by itself");
});

test("g7: a reader that comes late sees rising revisions and the last state", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  await using watch = client.watch(["t"]);
  let seen = (await state(watch)).state.revision;
  assert.equal(await type(watch), "snapshotComplete");
  let last = 0n;
  for (let flip = 0; flip < 200; flip++) {
    await client.incrementElicitation({ threadId: "t" });
    last = (await client.decrementElicitation({ threadId: "t" })).revision;
  }
  let events = 0;
  for (; seen < last; events++) {
    const { revision } = (await state(watch)).state;
    assert.ok(revision > seen);
    seen = revision;
  }
  assert.ok(events < 400, `${events} of 400 changes were told`);
});

test("g7: a watch of everything that nobody reads is not read from the network either", async () => {
  let sent = 0;
  await using fake = await FakeCoordinator.start({
    async *watchPauseState() {
      for (; sent < 15_000; sent++) {
        const threadId = `${sent}`.padStart(200, "x");
        yield event.state({ threadId, revision: 1n, count: 1, paused: true });
      }
      yield event.snapshotComplete();
      await silence;
    },
  });
  using client = new Client({ address: fake.address });
  await using watch = client.watch();
  await state(watch);
  // Until it stands still.
  for (let before = -1; before < sent; await sleep(300)) before = sent;
  assert.ok(sent >= 10_000 && sent < 13_000, `${sent}`);
  let told = 1;
  while ((await type(watch)) === "state") told++;
  assert.equal(told, 15_000);
});

test("threads that are added share the next stream, which replaces the old one without a gap", async () => {
  const streams: string[][] = [];
  let open = 0;
  await using fake = await FakeCoordinator.start({
    async *watchPauseState({ threadIds }, { signal }) {
      const revision = BigInt(streams.push(threadIds));
      open++;
      signal.addEventListener("abort", () => open--);
      for (const threadId of threadIds) yield event.state({ threadId, revision });
      yield event.snapshotComplete();
      await silence;
    },
  });
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["a"]);
  assert.deepEqual([await type(watch), await type(watch)], ["state", "snapshotComplete"]);
  for (let i = 0; i < 100; i++) watch.add(`thread-${i}`);
  watch.add("thread-0");
  const gaps = new Map<string, boolean>();
  for (let told = await next(watch); told.type === "state"; told = await next(watch)) {
    gaps.set(told.state.threadId, told.gap);
  }
  assert.deepEqual([streams.length, streams[1]?.length, gaps.size], [2, 101, 101]);
  assert.deepEqual([gaps.get("a"), gaps.get("thread-0")], [false, true], "a change of streams is no gap");
  await until(() => open === 1);
  for (let i = 0; i < 100; i++) watch.remove(`thread-${i}`);
  await until(() => streams.length === 3 && open === 1);
  assert.deepEqual(streams[2], ["a"], "the ids that nobody wants any more are dropped");
  watch.remove("a");
  await until(() => open === 0);
});

test("a stream that was one call too many in its second is opened again for all that wait, one beyond another limit for its own", async () => {
  for (const limit of ["calls-per-second-per-caller", "streams-per-caller"]) {
    const streams: string[] = [];
    await using fake = await FakeCoordinator.start({
      async *watchPauseState({ threadIds }) {
        streams.push([...threadIds].sort().join(" "));
        if (threadIds.includes("b") && (streams.length === 2 || limit === "streams-per-caller")) throw limited(limit);
        for (const threadId of threadIds) yield event.state({ threadId, revision: 1n });
        yield event.snapshotComplete();
        await silence;
      },
    });
    using client = new Client({ address: fake.address });
    await using watch = client.watch(["a"]);
    assert.deepEqual([await type(watch), await type(watch)], ["state", "snapshotComplete"]);
    watch.add("b");
    const cut = await next(watch);
    assert.ok(cut.type === "disconnected" && cut.error instanceof LimitExceededError);
    watch.add("c");
    const told = await state(watch);
    if (limit === "streams-per-caller") {
      assert.deepEqual([told.state.threadId, streams.includes("a c")], ["c", true]);
    } else {
      assert.deepEqual([told.state.threadId, streams.slice(0, 3)], ["b", ["a", "a b", "a b"]]);
    }
  }
});

test("a few more threads have a stream of their own, until nothing was added for a while", async () => {
  const streams: string[][] = [];
  let open = 0;
  await using fake = await FakeCoordinator.start({
    async *watchPauseState({ threadIds }, { signal }) {
      streams.push(threadIds);
      open++;
      signal.addEventListener("abort", () => open--);
      for (const threadId of threadIds) yield event.state({ threadId, revision: 1n });
      yield event.snapshotComplete();
      await silence;
    },
  });
  using client = new Client({ address: fake.address });
  await using watch = client.watch(Array.from({ length: 50 }, (_, i) => `thread-${i}`));
  while ((await type(watch)) === "state");
  watch.add("one");
  watch.add("two");
  assert.deepEqual([await type(watch), await type(watch), await type(watch)], ["state", "state", "snapshotComplete"]);
  assert.deepEqual([streams.length, streams[1]?.length, open], [2, 2, 2]);
  const again = watch.next();
  await until(() => streams.length === 3 && open === 1);
  assert.equal(streams[2]?.length, 52);
  assert.equal(await Promise.race([again, sleep(100, "nothing")]), "nothing", "no state is told again");
});

test("more than 10,000 threads are spread over several streams", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const threadIds = Array.from({ length: 10_050 }, (_, i) => `thread-${i}`);
  await using watch = client.watch(threadIds);
  const told = new Set<string>();
  for (let event = await next(watch); event.type === "state"; event = await next(watch)) told.add(event.state.threadId);
  assert.equal(told.size, 10_050);
  for (const threadId of ["thread-0", "thread-10049"]) {
    assert.equal((await client.incrementElicitation({ threadId })).watchers, 1);
    assert.equal((await state(watch)).state.threadId, threadId);
  }
});

test("a stream that says nothing to the first question within the deadline is opened anew", async () => {
  let streams = 0;
  await using fake = await FakeCoordinator.start({
    async *watchPauseState() {
      streams++;
      if (streams === 1) await silence;
      yield event.snapshotComplete();
      await silence;
    },
  });
  using client = new Client({ address: fake.address, deadlineMs: 200 });
  await using watch = client.watch(["t"]);
  const cut = await next(watch);
  assert.ok(cut.type === "disconnected" && /silent for 200 ms/.test(cut.error.message));
  await until(() => streams >= 2);
});

test("a watch of nothing waits; bad ids are refused at once", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  await using watch = client.watch([]);
  const first = watch.next();
  assert.equal(await Promise.race([first, sleep(50, "nothing")]), "nothing");
  watch.add("t");
  assert.equal((await first).value?.type, "state");
  assert.throws(() => client.watch(["ok", ""]), { name: "InvalidFieldError", field: "thread_id" });
  assert.throws(() => watch.add("x".repeat(257)), { name: "InvalidFieldError" });
});

test("many watches and calls of one client are no leak to Node", async () => {
  const warnings: string[] = [];
  const warn = ({ message }: Error) => warnings.push(message);
  process.on("warning", warn);
  // Nobody is there: the calls wait for their next attempt.
  const client = new Client({ address: "unix:/nowhere" });
  const signal = new AbortController().signal;
  const calls = Array.from({ length: 20 }, () => client.getPauseState("t").catch((error) => error.message));
  const own = client.getPauseState("t", { signal }).catch((error) => error.message);
  const watches = Array.from({ length: 20 }, () => client.watch(["t"]));
  for (const watch of watches) assert.equal(await type(watch), "disconnected");
  await settled();
  client.close();
  assert.deepEqual(new Set(await Promise.all([...calls, own])), new Set(["the client is closed"]));
  process.off("warning", warn);
  assert.deepEqual([warnings, getEventListeners(signal, "abort").length], [[], 0]);
});

test("it ends with its signal, with its client, and when it is closed", async () => {
  await using coordinator = await Coordinator.start();
  const client = coordinator.client();
  const abort = new AbortController();
  const reason = new Error("enough");
  const aborted = client.watch(["t"], { signal: abort.signal });
  await next(aborted);
  await next(aborted);
  const waiting = aborted.next();
  abort.abort(reason);
  await assert.rejects(waiting, reason);
  await assert.rejects(aborted.next(), reason);
  await assert.rejects(client.watch(["t"], { signal: abort.signal }).next(), reason);

  const closed = client.watch(["t"]);
  await next(closed);
  closed.close();
  closed.close();
  assert.deepEqual(await closed.next(), { done: true, value: undefined });

  const orphan = client.watch(["t"]);
  await next(orphan);
  await next(orphan);
  const pending = orphan.next();
  client.close();
  assert.equal((await pending).done, true);
  assert.equal((await client.watch().next()).done, true);
});
