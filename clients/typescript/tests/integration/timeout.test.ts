import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, InvalidFieldError, type PausableTimeout, PausableTimeoutError } from "../../src/index.js";
import { Coordinator, until } from "../support/coordinator.js";
import { atOneMoment } from "../support/moment.js";

/** Starts a timeout, and gives what reads how much wall time was not charged to it so far. */
function start(client: Client): { timeout: PausableTimeout; credited: () => number } {
  const timeout = client.startTimeout(60_000, { threadId: "t" });
  const started = atOneMoment(() => timeout.elapsedMs);
  const credited = () => {
    const { at, value } = atOneMoment(() => timeout.elapsedMs);
    return at - started.at - (value - started.value);
  };
  return { timeout, credited };
}

/** Keeps the process alive, which the timeout does not. */
async function expired({ signal }: PausableTimeout): Promise<void> {
  const alive = setInterval(() => undefined, 1_000);
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  clearInterval(alive);
}

test("it aborts as AbortSignal.timeout does", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const started = performance.now();
  const signal = client.pausableTimeout(200, { threadId: "t" });
  const plain = AbortSignal.timeout(1);
  await assert.rejects(sleep(10_000, undefined, { signal }), { name: "AbortError" });
  const took = performance.now() - started;
  assert.ok(took >= 199 && took < 9_000, `${took}`);
  assert.ok(signal.reason instanceof DOMException && signal.reason instanceof PausableTimeoutError);
  assert.equal(signal.reason.endedBy, "limit");
  assert.deepEqual([signal.reason.name, signal.reason.message], [plain.reason.name, plain.reason.message]);
});

test("the limit on wall time ends it in a pause, and the signal's reason says so", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  await client.withHold("t", {}, async () => {
    const signal = client.pausableTimeout(60_000, { threadId: "t", maxWallMs: 200 });
    await assert.rejects(sleep(60_000, undefined, { signal }), { name: "AbortError" });
    assert.ok(signal.reason instanceof PausableTimeoutError);
    assert.deepEqual([signal.reason.name, signal.reason.endedBy], ["TimeoutError", "maxWall"]);
  });
  // From JavaScript, a text that was never made a number.
  for (const wrong of [-1, "3600000" as never, null as never]) {
    assert.throws(() => client.startTimeout(1, { threadId: "t", maxWallMs: wrong }), RangeError);
    assert.throws(() => client.startTimeout(1, { threadId: "t", disconnectGraceMs: wrong }), RangeError);
    assert.throws(() => client.startTimeout(wrong, { threadId: "t" }), RangeError);
  }
  assert.throws(() => client.startTimeout("1" as never, { threadId: "t" }), {
    message: "ms has the type string; allowed: a number of milliseconds",
  });
});

test("g3: it stands still while an awaited thread is paused, and refuses an invalid thread and its own", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const { timeout, credited } = start(client);
  const [wait, other] = [timeout.awaitThread("child"), timeout.awaitThread("other")];
  other[Symbol.dispose]();
  other[Symbol.dispose]();
  await client.withHold("child", {}, async () => {
    await until(() => timeout.paused && timeout.linked);
    await sleep(300);
  });
  await until(() => !timeout.paused);
  const { pausedTotalMs } = await client.getPauseState({ threadId: "child" });
  assert.ok(Math.abs(credited() - pausedTotalMs) < 5, `${credited()}, ${pausedTotalMs}`);
  await client.withHold("child", {}, async () => {
    await until(() => timeout.paused);
    wait[Symbol.dispose]();
    assert.equal(timeout.paused, false);
  });
  for (const bad of ["t", ""]) {
    assert.throws(
      () => timeout.awaitThread(bad),
      (error) => error instanceof InvalidFieldError && error.field === "thread_id",
    );
  }
  timeout[Symbol.dispose]();
  timeout.awaitThread("child")[Symbol.dispose]();
});

test("g3: it stands still exactly for a pause, and continues with the remaining time", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const { timeout, credited } = start(client);
  await until(() => timeout.linked);
  await client.withHold("t", {}, async () => {
    await until(() => timeout.paused);
    await sleep(300);
  });
  await until(() => !timeout.paused);
  const { pausedTotalMs } = await client.getPauseState({ threadId: "t" });
  assert.ok(pausedTotalMs >= 300 && Math.abs(credited() - pausedTotalMs) < 5, `${credited()} ${pausedTotalMs}`);
  timeout[Symbol.dispose]();
});

test("g1: a limit is not used up by a person's slowness", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const hold = await client.hold("t");
  using timeout = client.startTimeout(100, { threadId: "t" });
  await until(() => timeout.paused);
  await sleep(400);
  assert.deepEqual([timeout.paused, timeout.expired], [true, false]);
  const over = expired(timeout);
  await hold.release();
  await over;
  assert.deepEqual([timeout.expired, timeout.remainingMs], [true, 0]);
});

test("an unobserved pause is credited after a restart of the coordinator", async () => {
  await using coordinator = await Coordinator.start({ durable: true });
  using client = coordinator.client();
  const { timeout, credited } = start(client);
  await until(() => timeout.linked);
  await coordinator.stop();
  await until(() => !timeout.linked);
  await coordinator.start();
  using other = coordinator.client();
  await other.withHold("t", {}, () => sleep(200));
  const { pausedTotalMs } = await other.getPauseState({ threadId: "t" });
  await until(() => timeout.linked && credited() > pausedTotalMs - 5);
  assert.ok(Math.abs(credited() - pausedTotalMs) < 5, `${credited()} ${pausedTotalMs}`);
  timeout[Symbol.dispose]();
});

test("g2: without a coordinator it expires after its grace", async () => {
  using client = new Client({ address: "127.0.0.1:1" });
  const started = performance.now();
  using timeout = client.startTimeout(100, { threadId: "t", disconnectGraceMs: 300 });
  await expired(timeout);
  const took = performance.now() - started;
  assert.ok(took >= 399 && took < 20_000, `${took}`);
});

test("own pauses nest, and end once", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  using timeout = client.startTimeout(60_000, { threadId: "t" });
  const outer = timeout.pause();
  const inner = timeout.pause();
  const at = timeout.elapsedMs;
  inner[Symbol.dispose]();
  inner[Symbol.dispose]();
  assert.equal(await timeout.pauseFor(() => sleep(50, "answer")), "answer");
  await assert.rejects(timeout.pauseFor(() => Promise.reject(new Error("no"))));
  assert.deepEqual([timeout.paused, timeout.elapsedMs], [true, at]);
  outer[Symbol.dispose]();
  await until(() => timeout.elapsedMs > at);
});

test("after disposal it never expires and its times do not change", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const timeout = client.startTimeout(50, { threadId: "t" });
  timeout[Symbol.dispose]();
  const at = timeout.elapsedMs;
  await sleep(150);
  timeout[Symbol.dispose]();
  assert.deepEqual([timeout.expired, timeout.signal.aborted, timeout.elapsedMs], [false, false, at]);
});

test("g7: a thousand timeouts of as many threads share one stream", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  const before = process.cpuUsage();
  const timeouts = Array.from({ length: 1_000 }, (_, i) =>
    client.startTimeout(60_000, { threadId: `thread-${i % 500}` }),
  );
  // The processor's time, which does not depend on what else the machine does.
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 1_000_000, `${user + system} µs`);
  await until(() => timeouts.every(({ linked }) => linked));
  assert.equal((await client.incrementElicitation({ threadId: "thread-0" })).watchers, 1);
  await until(() => timeouts[0]?.paused && timeouts[500]?.paused);
  assert.equal(timeouts[1]?.paused, false);
});

test("the thread is the client's unless another is named, and must be one", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client({ threadId: "mine" });
  using timeout = client.startTimeout(60_000);
  await using _hold = await client.hold(undefined);
  await until(() => timeout.paused);
  using nameless = coordinator.client();
  for (const start of [() => nameless.startTimeout(1), () => client.startTimeout(1, { threadId: "" })]) {
    assert.throws(start, InvalidFieldError);
  }
  for (const ms of [-1, Number.NaN, undefined as never]) assert.throws(() => client.pausableTimeout(ms), RangeError);
  assert.throws(() => client.startTimeout(1, { disconnectGraceMs: -1 }), RangeError);
  using never = client.startTimeout(Number.POSITIVE_INFINITY);
  assert.equal(never.remainingMs, Number.POSITIVE_INFINITY);
});
