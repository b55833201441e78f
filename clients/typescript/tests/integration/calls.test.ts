import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  CallError,
  Client,
  DeadlineExceededError,
  InvalidFieldError,
  LimitExceededError,
  UnavailableError,
} from "../../src/index.js";
import { Coordinator } from "../support/coordinator.js";
import { FakeCoordinator } from "../support/fake.js";
import { limited, retryInfo } from "../support/limited.js";
import { Refusing } from "../support/refusing.js";

test("counts up and down over TCP and a Unix socket", async () => {
  for (const listen of ["tcp", "unix"] as const) {
    await using coordinator = await Coordinator.start({ listen });
    using client = coordinator.client();
    const { count, elicitation } = await client.incrementElicitation({
      threadId: "日本 🙂",
      reason: "Push?",
      ttlMs: 60_000,
    });
    const state = await client.getPauseState({ threadId: "日本 🙂" });
    assert.deepEqual([count, state.count, state.paused, state.elicitations], [1, 1, true, [elicitation]]);
    assert.equal(Number(elicitation.expireTime) - Number(elicitation.createTime), 60_000);
    assert.ok(state.pausedForMs !== undefined && state.pausedForMs <= state.pausedTotalMs);
    const page = await client.listPauseStates();
    assert.deepEqual([page.pauseStates.length, page.nextPageToken], [1, ""]);
    assert.equal((await client.decrementElicitation({ threadId: "日本 🙂" })).count, 0);
    const { pauses } = await client.listPauses({ threadId: "日本 🙂", startTime: elicitation.createTime });
    assert.deepEqual(
      [pauses.length, pauses[0]?.endedBy, pauses[0]?.elicitations[0]?.reason],
      [1, "decremented", "Push?"],
    );
    assert.deepEqual((await client.listPauses({ endTime: elicitation.createTime })).pauses, []);
  }
});

test("an unencodable value is refused by the library at once", async () => {
  using client = new Client({ address: "127.0.0.1:1" });
  await assert.rejects(client.incrementElicitation({ threadId: "t", ttlMs: Number.NaN }), { field: "ttl" });
  await assert.rejects(client.incrementElicitation({ threadId: "t", reason: "\ud800" }), { field: "reason" });
  await assert.rejects(client.listPauseStates({ pageSize: 1.5 }), { field: "page_size" });
  await assert.rejects(client.listPauses({ startTime: new Date(Number.NaN) }), { field: "start_time" });
  await assert.rejects(client.getPauseState(undefined as never), InvalidFieldError);
  await assert.rejects(client.hold(undefined), { field: "thread_id" });
});

test("g4: a call whose connection is reset is retried with the same request id", async () => {
  const ids: string[] = [];
  await using fake = await FakeCoordinator.start({
    decrementElicitation: async ({ requestId }) => {
      ids.push(requestId);
      if (ids.length <= 2) fake.disconnect();
      return { count: 0 };
    },
  });
  using client = new Client({ address: fake.address });
  assert.equal((await client.decrementElicitation({ threadId: "t" })).count, 0);
  assert.equal(ids.length, 3);
  assert.match(ids[0] ?? "", /^[0-9a-f-]{36}$/);
  assert.equal(new Set(ids).size, 1);
});

test("g4: a call over the rate limit is retried with the same request id", async () => {
  const ids: string[] = [];
  await using fake = await FakeCoordinator.start({
    incrementElicitation: ({ requestId, threadId }) => {
      ids.push(requestId);
      if (threadId === "full") throw limited("open-elicitations", retryInfo({}));
      if (ids.length <= 2) throw limited("calls-per-second-per-caller", retryInfo({ nanos: 200_000_000 }));
      return { count: 1, elicitation: {} };
    },
  });
  using client = new Client({ address: fake.address, deadlineMs: 60_000 });
  const started = performance.now();
  assert.equal((await client.incrementElicitation({ threadId: "t" })).count, 1);
  assert.ok(performance.now() - started >= 400);
  assert.deepEqual([ids.length, new Set(ids).size], [3, 1]);
  await assert.rejects(client.incrementElicitation({ threadId: "full" }), {
    limit: "open-elicitations",
    retryAfterMs: 0,
  });
  assert.equal(ids.length, 4);
});

test("limits of a real coordinator are thrown or waited for", async () => {
  const limits = ["--max-open-elicitations-per-caller", "1", "--max-calls-per-second-per-caller", "5"];
  await using coordinator = await Coordinator.start({ limits });
  using client = coordinator.client({ deadlineMs: 60_000 });
  await client.incrementElicitation({ threadId: "t", ttlMs: 60_000 });
  await assert.rejects(client.incrementElicitation({ threadId: "t" }), (error: unknown) => {
    assert.ok(error instanceof LimitExceededError && error.retryAfterMs !== undefined && !error.transient);
    return error.limit === "open-elicitations-per-caller";
  });
  for (let call = 0; call < 8; call++) await client.getPauseState({ threadId: "t" });
});

test("a call waits for a server that comes back", async () => {
  await using coordinator = await Coordinator.start({ durable: true });
  using client = coordinator.client({ deadlineMs: 60_000 });
  await client.incrementElicitation({ threadId: "t" });
  await coordinator.stop();
  let call: Promise<{ count: number }>;
  {
    await using nobody = await Refusing.start(Number(coordinator.address.split(":").at(-1)));
    call = client.incrementElicitation({ threadId: "t" });
    await nobody.attempts(2);
  }
  await coordinator.start();
  const back = performance.now();
  assert.equal((await call).count, 2);
  assert.ok(performance.now() - back < 20_000, "not only at the end of its deadline");
});

test("refusals are not retried, and an outage is retried as often as configured", async () => {
  let calls = 0;
  await using fake = await FakeCoordinator.start({
    getPauseState: () => {
      calls++;
      throw new ConnectError("draining", Code.Unavailable);
    },
    renewElicitation: () => {
      calls++;
      throw new ConnectError("no", Code.PermissionDenied);
    },
  });
  using client = new Client({ address: fake.address, retries: 2 });
  await assert.rejects(client.getPauseState({ threadId: "t" }), UnavailableError);
  assert.equal(calls, 3);
  const refused = { name: "PermissionDeniedError", code: Code.PermissionDenied };
  await assert.rejects(client.renewElicitation({ threadId: "t", elicitationId: "e" }), refused);
  assert.equal(calls, 4);
});

test("a deadline covers all attempts, by client and by call, and is sent to the server", async () => {
  let reported = 0;
  await using fake = await FakeCoordinator.start({
    getPauseState: async (_, context) => {
      reported = context.timeoutMs() ?? 0;
      return new Promise((resolve) => context.signal.addEventListener("abort", () => resolve({})));
    },
  });
  using client = new Client({ address: fake.address, deadlineMs: 200 });
  const started = performance.now();
  await assert.rejects(client.getPauseState({ threadId: "t" }), DeadlineExceededError);
  await assert.rejects(client.getPauseState({ threadId: "t" }, { deadlineMs: 100 }), {
    message: "no answer within 100 ms",
  });
  const took = performance.now() - started;
  assert.ok(took >= 299 && took < 2_000, `${took}`);
  assert.ok(reported > 0 && reported <= 100, `${reported}`);
});

test("a silent peer uses up the deadline, and a missing one is reported with its cause", async () => {
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  using client = new Client({ address: `127.0.0.1:${(silent.address() as AddressInfo).port}`, deadlineMs: 300 });
  await assert.rejects(client.getPauseState({ threadId: "t" }), DeadlineExceededError);
  client.close();
  silent.close();
  using nobody = new Client({ address: "127.0.0.1:1", retries: 0 });
  await assert.rejects(
    nobody.getPauseState({ threadId: "t" }),
    /127\.0\.0\.1:\d+: connection lost: connect ECONNREFUSED/,
  );
});

test("a deadline or a ttl that is a text, from JavaScript, is refused", async () => {
  await using fake = await FakeCoordinator.start({ getPauseState: () => ({ pauseState: {} }) });
  using client = new Client({ address: fake.address });
  const text = "60000" as never;
  const problem = "has the type string; allowed: a number of milliseconds";
  assert.throws(() => new Client({ deadlineMs: text }), { name: "ConfigError", message: `deadlineMs ${problem}` });
  await assert.rejects(client.getPauseState({ threadId: "t" }, { deadlineMs: text }), {
    name: "RangeError",
    message: `deadlineMs ${problem}`,
  });
  await assert.rejects(client.hold("t", { ttlMs: text }), { name: "InvalidFieldError", message: `ttl ${problem}` });
});

test("a signal ends a call with its reason, also between attempts", async () => {
  await using nobody = await Refusing.start();
  using client = new Client({ address: nobody.address });
  const reason = new Error("not any more");
  const abort = new AbortController();
  const call = client.getPauseState({ threadId: "t" }, { signal: abort.signal });
  void nobody.attempts(2).then(() => abort.abort(reason));
  await assert.rejects(call, reason);
  await assert.rejects(client.getPauseState({ threadId: "t" }, { signal: abort.signal }), reason);
});

test("a closed client ends calls and makes no more; closing again does nothing", async () => {
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const never = () => {
    arrive();
    return new Promise<never>(() => undefined);
  };
  await using fake = await FakeCoordinator.start({ getPauseState: never });
  const client = new Client({ address: fake.address });
  const underWay = client.getPauseState({ threadId: "t" });
  await using nobody = await Refusing.start();
  const retrying = new Client({ address: nobody.address });
  const pausing = retrying.getPauseState({ threadId: "t" });
  await Promise.all([arrived, nobody.attempts(2)]);
  for (const closed of [client, client, retrying]) closed.close();
  const closed = (error: Error) => error instanceof CallError && error.message === "the client is closed";
  await assert.rejects(underWay, closed);
  await assert.rejects(pausing, closed);
  await assert.rejects(client.getPauseState({ threadId: "t" }), closed);
});

test("calls at a time share one connection", async () => {
  await using fake = await FakeCoordinator.start({ getPauseState: () => ({ pauseState: {} }) });
  using client = new Client({ address: fake.address });
  await Promise.all(Array.from({ length: 50 }, () => client.getPauseState({ threadId: "t" })));
  assert.equal(fake.connections, 1);
});
