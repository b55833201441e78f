/** What a timeout does when its time is out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../src/index.js";
import { until } from "../support/coordinator.js";
import { event, FakeCoordinator, silence } from "../support/fake.js";

/**
 * A coordinator that answers additions, and records for each confirmation its stream, and whether the stream has a new
 * connection.
 */
async function confirming(answers: (stream: number) => "paused" | "running" | "forbidden" | "nothing") {
  const asked: { stream: number; connections: number; threadIds: string[] }[] = [];
  let streams = 0;
  const fake: FakeCoordinator = await FakeCoordinator.start({
    async *watch(sent) {
      const stream = ++streams;
      const paused = answers(stream) === "paused";
      const state = (threadId: string) => ({ threadId, revision: paused ? 2n : 1n, paused });
      let request = 0;
      for await (const { add, confirm } of sent) {
        request++;
        assert.ok(add.length === 0 || confirm.length === 0);
        for (const threadId of add) yield event.state(state(threadId));
        if (confirm.length > 0) {
          asked.push({ stream, connections: fake.connections, threadIds: confirm });
          const answer = answers(stream);
          if (answer === "nothing") await silence;
          if (answer === "forbidden") {
            yield event.refusal({ request: BigInt(request), code: 7, reason: "THREAD_FORBIDDEN", threadIds: confirm });
            continue;
          }
          yield event.confirmation(...confirm.map(state));
        }
        yield event.snapshotComplete(request);
      }
    },
  });
  return { fake, asked };
}

test("g1: timeouts that run out together are confirmed in few requests of one stream", async () => {
  const { fake, asked } = await confirming(() => "running");
  await using _ = fake;
  using client = new Client({ address: fake.address });
  const over = performance.now() + 500;
  const timeouts = Array.from({ length: 1_000 }, (_, i) =>
    client.startTimeout(over - performance.now(), { threadId: `${i}` }),
  );
  await until(() => timeouts.every(({ expired }) => expired));
  assert.deepEqual(new Set(asked.map(({ stream }) => stream)), new Set([1]));
  assert.equal(new Set(asked.flatMap(({ threadIds }) => threadIds)).size, 1_000);
  assert.ok(asked.length < 100, `${asked.length} requests`);
});

test("g1: a stream without a confirmation is replaced over a new connection, on which it is requested again", async () => {
  const { fake, asked } = await confirming((stream) => (stream === 1 ? "nothing" : "paused"));
  await using _ = fake;
  using client = new Client({ address: fake.address });
  using timeout = client.startTimeout(200, { threadId: "t" });
  await until(() => timeout.paused);
  assert.equal(timeout.expired, false);
  assert.deepEqual(asked, [
    { stream: 1, connections: 1, threadIds: ["t"] },
    { stream: 2, connections: 2, threadIds: ["t"] },
  ]);
});

test("g2: a timeout that may not be confirmed waits for the grace", async () => {
  const { fake, asked } = await confirming(() => "forbidden");
  await using _ = fake;
  using client = new Client({ address: fake.address });
  const started = performance.now();
  using timeout = client.startTimeout(100, { threadId: "t", disconnectGraceMs: 600 });
  await until(() => timeout.expired);
  assert.ok(performance.now() - started >= 699);
  assert.equal(asked.length, 1);
});
