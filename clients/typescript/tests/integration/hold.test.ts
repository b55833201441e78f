import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../src/gen/google/rpc/error_details_pb.js";
import { Client, ElicitationExpiredError, InvalidFieldError, UnavailableError } from "../../src/index.js";
import { Coordinator, until } from "../support/coordinator.js";
import { FakeCoordinator, type Handlers, silence } from "../support/fake.js";
import { Refusing } from "../support/refusing.js";

/** A coordinator on which every lease has ended when somebody asks. */
function expired(): never {
  const reason = { reason: "ELICITATION_EXPIRED", domain: "pausewatch", metadata: {} };
  throw new ConnectError("expired", Code.NotFound, undefined, [{ desc: ErrorInfoSchema, value: reason }]);
}

const OPENED: Handlers = {
  incrementElicitation: ({ threadId }) => ({ count: 1, paused: true, elicitation: { elicitationId: "e", threadId } }),
};

test("a hold is open until its block ends, however that ends", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  {
    await using hold = await client.hold("t", { reason: "Push?" });
    const { elicitations } = await client.getPauseState({ threadId: "t" });
    assert.deepEqual([hold.lease, elicitations], ["held", [hold.elicitation]]);
    assert.match(elicitations[0]?.holder ?? "", /^\S+\[\d+\]$/);
  }
  assert.equal((await client.getPauseState({ threadId: "t" })).count, 0);

  const own = new Error("the block's own");
  const block = async () => {
    await using _hold = await client.hold("t");
    throw own;
  };
  await assert.rejects(block(), own);
  assert.equal(await client.withHold("t", {}, async () => (await client.getPauseState({ threadId: "t" })).count), 1);
  await assert.rejects(
    client.withHold("t", {}, () => Promise.reject(own)),
    own,
  );
  assert.equal((await client.getPauseState({ threadId: "t" })).count, 0);
});

test("a release returns how the elicitation ended, and the same result again", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  await client.incrementElicitation({ threadId: "t" });
  const hold = await client.hold("t");
  const [first, second] = await Promise.all([hold.release(), hold.release()]);
  assert.deepEqual([first.ending, first], ["closed", second]);
  assert.deepEqual([await hold.release(), hold.released, hold.lease], [first, first, "released"]);
  assert.equal((await client.getPauseState({ threadId: "t" })).count, 1);
});

test("g2: a lease is renewed while its program lives", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  await using hold = await client.hold("t", { ttlMs: 6_000 });
  await sleep(8_000);
  assert.deepEqual([hold.lease, (await client.getPauseState({ threadId: "t" })).count], ["held", 1]);
});

test("waiters are notified when another caller closes it, or the wait is aborted", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  await using hold = await client.hold("t", { ttlMs: 9_000 });
  const ended = new AbortController();
  const waiting = hold.lost({ signal: ended.signal });
  ended.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  const lost = hold.lost();
  await client.decrementElicitation({ threadId: "t", elicitationId: hold.elicitation.elicitationId });
  assert.equal(await lost, "released");
  assert.equal((await hold.complete()).ending, "released");
});

test("g4: all decrements of a hold have one request id, and renewals continue after a failed release", async () => {
  const ids: string[] = [];
  let renewals = 0;
  let down = true;
  await using fake = await FakeCoordinator.start({
    ...OPENED,
    renewElicitation: () => {
      renewals++;
      return { elicitation: { elicitationId: "e", threadId: "t" } };
    },
    decrementElicitation: ({ requestId }) => {
      ids.push(requestId);
      if (down) throw new ConnectError("draining", Code.Unavailable);
      return { count: 0 };
    },
  });
  using client = new Client({ address: fake.address, retries: 1 });
  await using hold = await client.hold("t", { ttlMs: 300 });
  await assert.rejects(hold.release(), UnavailableError);
  const before = renewals;
  await until(() => renewals > before + 1);
  down = false;
  assert.equal((await hold.release()).ending, "closed");
  assert.deepEqual([ids.length, new Set(ids).size], [3, 1]);
});

test("a late answer is an error of its own type in complete() and withHold", async () => {
  await using fake = await FakeCoordinator.start({ ...OPENED, decrementElicitation: expired });
  using client = new Client({ address: fake.address });
  await assert.rejects(
    client.withHold("t", {}, () => "approved"),
    ElicitationExpiredError,
  );
  const block = async () => {
    await using hold = await client.hold("t");
    await hold.complete();
  };
  await assert.rejects(block(), ElicitationExpiredError);
  const hold = await client.hold("t");
  assert.equal((await hold.release()).ending, "expired");
});

test("a late answer does not replace the block's own error, and is logged at the end of a block", async () => {
  await using fake = await FakeCoordinator.start({ ...OPENED, decrementElicitation: expired });
  using client = new Client({ address: fake.address });
  const own = new Error("the block's own");
  const late = /the answer came too late/;
  for (const block of [
    async () => {
      await using _hold = await client.hold("t");
      throw own;
    },
    () => client.withHold("t", {}, () => Promise.reject(own)),
  ]) {
    const warned = once(process, "warning");
    await assert.rejects(block(), (error) => error === own);
    const [warning] = await warned;
    assert.match(warning.message, late);
  }
  const warned = once(process, "warning");
  {
    await using _hold = await client.hold("t");
  }
  assert.match((await warned)[0].message, late);
});

test("a lease that cannot be renewed is overdue, and held again when it can", async () => {
  let down = false;
  await using fake = await FakeCoordinator.start({
    ...OPENED,
    renewElicitation: () => {
      if (down) throw new ConnectError("draining", Code.Unavailable);
      return { elicitation: { elicitationId: "e", threadId: "t" } };
    },
    decrementElicitation: () => ({ count: 0 }),
  });
  using client = new Client({ address: fake.address });
  await using hold = await client.hold("t", { ttlMs: 300 });
  down = true;
  assert.equal(await hold.lost(), "overdue");
  down = false;
  await until(() => hold.lease === "held");
});

test("a hold that cannot be released is overdue after its ttl", async () => {
  await using fake = await FakeCoordinator.start({
    ...OPENED,
    decrementElicitation: () => {
      throw new ConnectError("draining", Code.Unavailable);
    },
  });
  using client = new Client({ address: fake.address, retries: 0 });
  const hold = await client.hold("t", { ttlMs: 300 });
  const lost = hold.lost();
  const warned = once(process, "warning");
  await hold[Symbol.asyncDispose]();
  await warned;
  assert.equal(await lost, "overdue");
});

test("a failed release is retried in the background by a client without retries too", async () => {
  const requestIds: string[] = [];
  await using fake = await FakeCoordinator.start({
    ...OPENED,
    decrementElicitation: ({ requestId }) => {
      requestIds.push(requestId);
      if (requestIds.length <= 3) throw new ConnectError("draining", Code.Unavailable);
      return { count: 0 };
    },
  });
  using client = new Client({ address: fake.address, retries: 0 });
  const hold = await client.hold("t");
  await assert.rejects(hold.release(), UnavailableError);
  assert.equal(requestIds.length, 1);
  const warned = once(process, "warning");
  await hold[Symbol.asyncDispose]();
  await warned;
  await until(() => hold.released?.ending === "closed");
  assert.deepEqual(requestIds, new Array(4).fill(requestIds[0]));
});

test("a hold that is opened after its signal was aborted is closed again", async () => {
  let decrements = 0;
  let answer = () => {};
  const asked = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const abort = new AbortController();
  const reason = new Error("not any more");
  await using fake = await FakeCoordinator.start({
    incrementElicitation: async ({ threadId }) => {
      abort.abort(reason);
      await asked;
      return { count: 1, elicitation: { elicitationId: "e", threadId } };
    },
    decrementElicitation: () => {
      decrements++;
      return { count: 0 };
    },
  });
  using client = new Client({ address: fake.address });
  await assert.rejects(client.hold("t", { signal: abort.signal }), reason);
  answer();
  await until(() => decrements === 1);
});

test("g2: a closed client finishes what it opens and releases, and calls nobody afterwards", async () => {
  const counts = { increments: 0, decrements: 0 };
  let incrementing = () => {};
  await using fake = await FakeCoordinator.start({
    incrementElicitation: async ({ threadId }) => {
      counts.increments++;
      incrementing();
      await sleep(50);
      return { count: 1, elicitation: { elicitationId: "e", threadId } };
    },
    decrementElicitation: async () => {
      await sleep(50);
      counts.decrements++;
      return { count: 0 };
    },
  });
  const whileItOpens = async (end: (client: Client, abort: AbortController) => void, expected: RegExp) => {
    using client = new Client({ address: fake.address });
    const abort = new AbortController();
    const arrived = new Promise<void>((resolve) => {
      incrementing = resolve;
    });
    const opening = client.hold("t", { signal: abort.signal });
    await Promise.race([arrived, opening]);
    end(client, abort);
    await assert.rejects(opening, expected);
    return client;
  };
  const aborted = await whileItOpens((_, abort) => abort.abort(new Error("not any more")), /not any more/);
  await assert.rejects(aborted.hold("t"), /closed/);
  await until(() => counts.decrements === 1);
  await whileItOpens((client) => client.close(), /closed/);
  await until(() => counts.decrements === 2);

  const client = new Client({ address: fake.address });
  const hold = await client.hold("t");
  const release = hold.release();
  client.close();
  await assert.rejects(client.getPauseState({ threadId: "t" }), /closed/);
  await assert.rejects(client.hold("t"), /closed/);
  assert.equal((await release).ending, "closed");
  assert.deepEqual(counts, { increments: 3, decrements: 3 });
});

test("a closed client waits for a release for one deadline", async () => {
  await using fake = await FakeCoordinator.start({ ...OPENED, decrementElicitation: () => silence });
  const client = new Client({ address: fake.address, deadlineMs: 100 });
  const hold = await client.hold("t", { deadlineMs: 60_000, ttlMs: 60_000 });
  await assert.rejects(hold.release(), { transient: true });
  hold.releaseInBackground();
  client.close();
  const closed = performance.now();
  await until(() => fake.open === 0);
  const ms = performance.now() - closed;
  // A client that waits for the background's release waits for its ttl.
  assert.ok(ms < 20_000, `${ms} ms`);
});

test("a hold that is refused raises the call's own error", async () => {
  await using coordinator = await Coordinator.start();
  using client = coordinator.client();
  await assert.rejects(client.hold("t", { ttlMs: 999 }), InvalidFieldError);
  await assert.rejects(client.hold(""), InvalidFieldError);
  assert.equal((await client.getPauseState({ threadId: "t" })).count, 0);
});

test("a block that ends in an outage is released after the reconnect", async () => {
  let down = true;
  // By request id, as a coordinator counts: an attempt that was given up may be served after the outage.
  const decrements = new Set<string>();
  await using fake = await FakeCoordinator.start({
    ...OPENED,
    decrementElicitation: ({ requestId }) => {
      if (down) throw new ConnectError("draining", Code.Unavailable);
      decrements.add(requestId);
      return { count: 0 };
    },
  });
  using client = new Client({ address: fake.address, deadlineMs: 100 });
  const warned = once(process, "warning");
  {
    await using _hold = await client.hold("t", { deadlineMs: 60_000 });
  }
  assert.match((await warned)[0].message, /not released yet/);
  await assert.rejects(
    client.withHold("t", { deadlineMs: 60_000 }, () => "answer"),
    { transient: true },
  );
  down = false;
  await until(() => decrements.size === 2);
});

test("a best-effort hold continues without a coordinator, and a warning has the cause", async () => {
  await using nobody = await Refusing.start();
  const warnings: string[] = [];
  const logger = { info: () => undefined, warn: (message: string) => void warnings.push(message) };
  using client = new Client({ address: nobody.address, retries: 0, logger });
  const options = { bestEffort: true };
  {
    await using hold = await client.hold("t", options);
    assert.ok(hold.failure instanceof UnavailableError);
    assert.deepEqual(
      [hold.lease, await hold.lost(), (await hold.complete()).ending],
      ["notOpen", "notOpen", "notOpen"],
    );
    assert.throws(() => hold.opened, /could not be opened/);
  }
  assert.equal(await client.withHold(undefined, options, ({ lease }) => lease), "notOpen");
  const own = new Error("own");
  await assert.rejects(
    client.withHold("t", options, () => Promise.reject(own)),
    (error) => error === own,
  );
  assert.equal(warnings.length, 3);
  assert.match(warnings[0] ?? "", /going on without a hold: 127/);
  client.close();
  await assert.rejects(client.hold("t", options), /closed/);
});
