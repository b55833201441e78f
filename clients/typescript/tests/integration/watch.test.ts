import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { WatchRequest } from "../../src/gen/pausewatch/v1/elicitation_service_pb.js";
import { Client, LimitExceededError, PermissionDeniedError, type Watch, type WatchEvent } from "../../src/index.js";
import { settled } from "../support/clock.js";
import { Coordinator, until } from "../support/coordinator.js";
import { event, FakeCoordinator, silence } from "../support/fake.js";

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
async function reported(watch: Watch): Promise<string> {
  const event = await next(watch);
  if (event.type !== "state") return event.type;
  const { threadId, revision, paused } = event.state;
  return `${threadId} ${revision} ${paused ? "paused" : "running"}${event.gap ? " gap" : ""}`;
}

/** A coordinator whose streams say what a test writes into them, one stream after the other. */
async function scripted() {
  const streams = Array.from({ length: 3 }, () => new PassThrough({ objectMode: true }));
  const requests: Pick<WatchRequest, "add" | "remove" | "confirm" | "allThreads">[][] = [];
  const fake = await FakeCoordinator.start({
    async *watch(sent) {
      const received: (typeof requests)[number] = [];
      const stream = streams[requests.push(received) - 1];
      void (async () => {
        for await (const { add, remove, confirm, allThreads } of sent)
          received.push({ add, remove, confirm, allThreads });
      })().catch(() => undefined);
      yield* stream ?? [];
    },
  });
  return { fake, requests, streams: streams as [PassThrough, PassThrough, PassThrough] };
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

test("it reconnects after a restart, and reports a gap", async () => {
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

test("a watch of all threads reports a resume in the gap", async () => {
  await using coordinator = await Coordinator.start({ durable: true });
  using client = coordinator.client({ deadlineMs: 60_000 });
  for (const threadId of ["stays", "resumes"]) await client.incrementElicitation({ threadId });
  await using watch = client.watch();
  assert.deepEqual([await type(watch), await type(watch), await type(watch)], ["state", "state", "snapshotComplete"]);
  await coordinator.stop();
  assert.equal(await type(watch), "disconnected");
  const decrement = client.decrementElicitation({ threadId: "resumes" });
  await coordinator.start();
  await decrement;
  const reported = new Map<string, number>();
  for (let event = await next(watch); event.type === "state"; event = await next(watch)) {
    reported.set(event.state.threadId, event.state.count);
  }
  assert.deepEqual([reported.get("stays"), reported.get("resumes")], [1, 0]);
});

test("a new stream of all threads reports those that were paused before the disconnect, and each state once", async () => {
  const { fake, requests, streams } = await scripted();
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch();
  const [first, second] = streams;
  first.write(event.state({ threadId: "a", revision: 1n, paused: true }));
  first.write(event.state({ threadId: "b", revision: 1n, paused: true }));
  first.write(event.snapshotComplete());
  first.end(event.state({ threadId: "b", revision: 2n }));
  while ((await reported(watch)) !== "disconnected");
  second.write(event.state({ threadId: "c", revision: 1n, paused: true }));
  second.write(event.state({ threadId: "a", revision: 3n, paused: true }));
  second.write(event.state({ threadId: "a", revision: 3n, paused: true }));
  second.write(event.snapshotComplete());
  second.write(event.state({ threadId: "a", revision: 4n }));
  assert.equal(await reported(watch), "c 1 paused gap");
  assert.equal(await reported(watch), "a 3 paused gap");
  assert.equal(await reported(watch), "snapshotComplete");
  assert.equal(await reported(watch), "a 4 running");
  const nothing = { remove: [], confirm: [], allThreads: true };
  assert.deepEqual(requests, [[{ ...nothing, add: [] }], [{ ...nothing, add: ["a"] }]]);
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
  assert.ok(events < 400, `${events} of 400 changes were reported`);
});

test("g7: an unread watch of all threads is not read from the network either", async () => {
  let sent = 0;
  await using fake = await FakeCoordinator.start({
    async *watch() {
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
  await until(() => sent >= 10_000);
  // Until it stands still.
  for (let before = -1; before < sent; await sleep(300)) before = sent;
  assert.ok(sent < 13_000, `${sent}`);
  let reported = 1;
  while ((await type(watch)) === "state") reported++;
  assert.equal(reported, 15_000);
});

test("a heartbeat interval above an hour counts as an hour: timers of Node take no more than 24 days", async () => {
  const warnings: string[] = [];
  const listener = ({ name }: Error) => warnings.push(name);
  process.on("warning", listener);
  await using fake = await FakeCoordinator.start({
    async *watch() {
      yield event.state({ threadId: "t", revision: 1n });
      yield event.snapshotComplete();
      yield event.heartbeat(315_576_000_000n);
      await sleep(200);
      yield event.state({ threadId: "t", revision: 2n });
      await silence;
    },
  });
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["t"]);
  const events = [await reported(watch), await reported(watch), await reported(watch)];
  process.off("warning", listener);
  assert.deepEqual(events, ["t 1 running gap", "snapshotComplete", "t 2 running"]);
  assert.deepEqual(warnings, []);
});

test("a retry delay of years is waited for", async () => {
  const warnings: string[] = [];
  const listener = ({ name }: Error) => warnings.push(name);
  process.on("warning", listener);
  await using fake = await FakeCoordinator.start({
    async *watch() {
      const retryAfter = { seconds: 315_576_000_000n };
      yield event.refusal({ request: 1n, code: 8, reason: "LIMIT_EXCEEDED", retryAfter });
      await silence;
    },
  });
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["t"]);
  const refused = await next(watch);
  await sleep(50);
  process.off("warning", listener);
  assert.equal(refused.type, "disconnected");
  assert.deepEqual(warnings, []);
});

test("threads that come and go share one stream; what changes while a request is unanswered goes with the next one", async () => {
  const { fake, requests, streams } = await scripted();
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["a"]);
  const [stream] = streams;
  const first = reported(watch);
  await until(() => requests[0]?.length === 1);
  for (let i = 0; i < 600; i++) watch.add(`thread-${i}`);
  watch.add("thread-0");
  watch.remove("a");
  watch.remove("thread-1");
  stream.write(event.state({ threadId: "a", revision: 1n }));
  stream.write(event.state({ threadId: "thread-2", revision: 1n }));
  assert.equal(await first, "thread-2 1 running gap", "a state of a removed thread is not reported");
  assert.equal(requests[0]?.length, 1);
  stream.write(event.snapshotComplete(1));
  const second = await until(() => requests[0]?.[1]);
  assert.deepEqual([second.remove, second.add.length, second.add[0]], [["a"], 499, "thread-0"]);
  stream.write(event.snapshotComplete(2));
  const third = await until(() => requests[0]?.[2]);
  assert.deepEqual([third.remove.length, third.add.length], [0, 100]);
  stream.write(event.snapshotComplete(3));
  assert.equal(await reported(watch), "snapshotComplete", "once, when every thread was reported");
  stream.end();
  assert.equal(await reported(watch), "disconnected");
  const again = await until(() => requests[1]?.[0]);
  assert.equal(again.add.length, 500, "the whole set is sent again");
});

test("threads that the token may not read are reported, and the others continue", async () => {
  const { fake, requests, streams } = await scripted();
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["ours", "theirs"]);
  const [stream] = streams;
  stream.write(
    event.refusal({ request: 1n, code: 7, reason: "THREAD_FORBIDDEN", message: "no", threadIds: ["theirs"] }),
  );
  const cut = await next(watch);
  assert.ok(cut.type === "disconnected" && cut.error instanceof PermissionDeniedError);
  assert.deepEqual([cut.threadIds, cut.error.reason], [["theirs"], "THREAD_FORBIDDEN"]);
  const second = await until(() => requests[0]?.[1]);
  assert.deepEqual(second.add, ["ours"]);
  stream.write(event.state({ threadId: "ours", revision: 1n }));
  stream.write(event.snapshotComplete(2));
  assert.deepEqual([await reported(watch), await reported(watch)], ["ours 1 running gap", "snapshotComplete"]);
});

test("a refusal is reported once, also after a disconnect", async () => {
  const { fake, requests, streams } = await scripted();
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["ours", "theirs"]);
  const [first, second, third] = streams;
  const waiting = next(watch);
  await until(() => requests[0]?.length === 1);
  first.end();
  const lost = await waiting;
  assert.ok(lost.type === "disconnected" && lost.error.transient);
  for (const stream of [second, third]) {
    stream.write(event.refusal({ request: 1n, code: 7, reason: "THREAD_FORBIDDEN", threadIds: ["theirs"] }));
    stream.write(event.state({ threadId: "ours", revision: 1n }));
    if (stream === second) {
      const refused = await next(watch);
      assert.ok(refused.type === "disconnected" && refused.error instanceof PermissionDeniedError);
      assert.deepEqual(refused.threadIds, ["theirs"]);
    }
    assert.equal(await reported(watch), "ours 1 running gap");
    stream.end();
    const cut = await next(watch);
    assert.ok(cut.type === "disconnected" && cut.error.transient);
    assert.deepEqual(cut.threadIds, ["ours"]);
  }
});

test("a refused first request with elicitations is sent again on a new stream", async () => {
  const { fake, requests, streams } = await scripted();
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["ours", "theirs"], { includeElicitations: true });
  const [first, second] = streams;
  first.write(event.refusal({ request: 1n, code: 7, reason: "THREAD_FORBIDDEN", threadIds: ["theirs"] }));
  for (const threadId of ["theirs", "ours"]) {
    const cut = await next(watch);
    assert.ok(cut.type === "disconnected" && cut.error instanceof PermissionDeniedError);
    assert.deepEqual(cut.threadIds, [threadId]);
  }
  await until(() => requests[1]?.length === 1);
  assert.deepEqual(requests[1]?.[0]?.add, ["ours"]);
  second.write(event.state({ threadId: "ours", revision: 1n }));
  assert.equal(await reported(watch), "ours 1 running gap");
});

test("a refusal by a limit is reported once, and the request is sent again after the server's delay", async () => {
  const { fake, requests, streams } = await scripted();
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch(["a"]);
  const [stream] = streams;
  const refuse = (request: bigint) =>
    stream.write(
      event.refusal({ request, code: 8, reason: "LIMIT_EXCEEDED", retryAfter: { seconds: 0n, nanos: 100_000_000 } }),
    );
  refuse(1n);
  const cut = await next(watch);
  assert.ok(cut.type === "disconnected" && cut.error instanceof LimitExceededError && cut.error.retryAfterMs === 100);
  const refused = performance.now();
  await until(() => requests[0]?.length === 2);
  assert.ok(performance.now() - refused >= 90);
  refuse(2n);
  await until(() => requests[0]?.length === 3);
  stream.write(event.state({ threadId: "a", revision: 1n }));
  assert.equal(await reported(watch), "a 1 running gap");
  assert.deepEqual(
    requests[0]?.map(({ add }) => add),
    [["a"], ["a"], ["a"]],
  );
});

test("a watch of all threads that a limit refuses is opened again after the server's delay", async () => {
  const { fake, requests, streams } = await scripted();
  await using _ = fake;
  using client = new Client({ address: fake.address });
  await using watch = client.watch();
  const [stream] = streams;
  const refusal = { request: 1n, code: 8, reason: "LIMIT_EXCEEDED", retryAfter: { seconds: 0n, nanos: 700_000_000 } };
  stream.write(event.refusal(refusal));
  const cut = await next(watch);
  assert.ok(cut.type === "disconnected" && cut.error instanceof LimitExceededError);
  const refused = performance.now();
  await until(() => requests[1]?.length === 1);
  assert.equal(requests[1]?.[0]?.allThreads, true);
  assert.ok(performance.now() - refused >= 600);
});

test("more than 10,000 threads share one stream", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const threadIds = Array.from({ length: 10_050 }, (_, i) => `thread-${i}`);
  await using watch = client.watch(threadIds);
  const reported = new Set<string>();
  for (let event = await next(watch); event.type === "state"; event = await next(watch))
    reported.add(event.state.threadId);
  assert.equal(reported.size, 10_050);
  for (const threadId of ["thread-0", "thread-10049"]) {
    assert.equal((await client.incrementElicitation({ threadId })).watchers, 1);
    assert.equal((await state(watch)).state.threadId, threadId);
  }
});

test("a stream without a first answer within the deadline is reopened", async () => {
  let streams = 0;
  await using fake = await FakeCoordinator.start({
    async *watch() {
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

test("many watches and calls of one client cause no leak warning of Node", async () => {
  const warnings: string[] = [];
  const warn = ({ message }: Error) => warnings.push(message);
  process.on("warning", warn);
  // Nobody is there: the calls wait for their next attempt.
  const client = new Client({ address: "unix:/nowhere" });
  const signal = new AbortController().signal;
  const calls = Array.from({ length: 20 }, () =>
    client.getPauseState({ threadId: "t" }).catch((error) => error.message),
  );
  const own = client.getPauseState({ threadId: "t" }, { signal }).catch((error) => error.message);
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
  // The end of a loop over a watch that never ran would look like the end of a pause.
  const late = client.watch();
  await assert.rejects(late.next(), { name: "CallError", message: "the client is closed" });
  await assert.rejects(late.next(), /closed/);
  await assert.rejects(async () => {
    for await (const _ of client.watch(["t"]));
  }, /closed/);
});
