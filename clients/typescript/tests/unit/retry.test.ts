import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { Code, ConnectError, type CallOptions as ConnectOptions } from "@connectrpc/connect";
import { fromStatus, LimitExceededError } from "../../src/errors.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../../src/gen/google/rpc/error_details_pb.js";
import { callRetryDelays, retryDelayAfter, unary } from "../../src/retry.js";
import { Route, shuffled } from "../../src/route.js";
import { codeOf } from "../support/codes.js";
import { limited, retryInfo } from "../support/limited.js";
import { known, testEach } from "../support/vectors.js";

const CHANNEL = { address: "localhost:7420", route: new Route(1), nextToken: async () => undefined };
const TARGET = { closing: new AbortController().signal, keepsAlive: true, channel: CHANNEL };

/** A call that fails with each of these errors in turn, and then returns the number of its attempts. */
function refusing(...refusals: Error[]) {
  let calls = 0;
  const send = async () => {
    const refusal = refusals[calls++];
    if (refusal !== undefined) throw refusal;
    return calls;
  };
  return { send, calls: () => calls };
}

interface Case {
  readonly name: string;
  readonly code: string;
  readonly reason?: string;
  readonly limit?: string;
  readonly retry_after_ms?: number;
  readonly repeated: boolean;
  readonly pauses_ms?: [number, number][];
}

testEach<Case>("retries.json", (one) => {
  known(one, "name", "code", "reason", "limit", "retry_after_ms", "repeated", "pauses_ms");
  const { reason, limit, retry_after_ms: retryAfterMs, pauses_ms = [] } = one;
  const metadata: Record<string, string> = limit === undefined ? {} : { limit };
  const info = { desc: ErrorInfoSchema, value: { domain: "pausewatch", reason: reason ?? "", metadata } };
  const retryDelay = {
    seconds: BigInt(Math.trunc((retryAfterMs ?? 0) / 1_000)),
    nanos: ((retryAfterMs ?? 0) % 1_000) * 1e6,
  };
  const details = [
    ...(reason === undefined ? [] : [info]),
    ...(retryAfterMs === undefined ? [] : [{ desc: RetryInfoSchema, value: { retryDelay } }]),
  ];
  const error = fromStatus(new ConnectError("in words", codeOf(one.code), { "grpc-status": "1" }, details));
  const pauses = callRetryDelays();
  if (!one.repeated) assert.equal(retryDelayAfter(error, pauses), undefined);
  else assert.ok(pauses_ms.length > 0);
  for (const [least, most] of pauses_ms) {
    const pause = retryDelayAfter(error, pauses);
    assert.ok(pause !== undefined && pause >= least && pause <= most, `${pause}: ${least} to ${most}`);
  }
});

test("a call over the rate limit is retried after the server's delay", async () => {
  const limits = { deadlineMs: 60_000, retries: Number.POSITIVE_INFINITY };
  const asked = refusing(
    limited("calls-per-second", retryInfo({ nanos: 200_000_000 })),
    limited("calls-per-second-per-caller", retryInfo({ nanos: 300_000_000 })),
  );
  const started = performance.now();
  assert.equal(await unary(TARGET, limits, asked.send), 3);
  // Node's timers may be a millisecond early; the random pauses are longer.
  assert.ok(performance.now() - started >= 500);
  const withoutDelay = performance.now();
  assert.equal(await unary(TARGET, limits, refusing(limited("calls-per-second")).send), 2);
  assert.ok(performance.now() - withoutDelay >= 1_000);
});

test("a retry delay beyond the deadline or the allowed retries is not started", async () => {
  const late = refusing(limited("calls-per-second", retryInfo({ seconds: 60n })));
  const limits = { deadlineMs: 60_000, retries: Number.POSITIVE_INFINITY };
  await assert.rejects(unary(TARGET, limits, late.send), { limit: "calls-per-second", retryAfterMs: 60_000 });
  assert.equal(late.calls(), 1);
  const soon = () => limited("calls-per-second", retryInfo({}));
  const often = refusing(soon(), soon(), soon());
  await assert.rejects(unary(TARGET, { ...limits, retries: 1 }, often.send), LimitExceededError);
  assert.equal(often.calls(), 2);
});

test("a delay longer than any timer is not shortened to nothing", async () => {
  const closing = new AbortController();
  const asked = refusing(limited("calls-per-second", retryInfo({ seconds: 10_000_000_000n })));
  const limits = { deadlineMs: Number.POSITIVE_INFINITY, retries: Number.POSITIVE_INFINITY };
  const call = unary({ closing: closing.signal, keepsAlive: true, channel: CHANNEL }, limits, asked.send);
  const reason = new Error("closed");
  setTimeout(() => closing.abort(reason), 200);
  await assert.rejects(call, reason);
  assert.equal(asked.calls(), 1);
});

for (const end of ["closing", "signal"] as const) {
  test(`the pause before the next attempt ends with the ${end === "closing" ? "client" : "call's own signal"}`, async () => {
    const aborts = { closing: new AbortController(), signal: new AbortController() };
    const { closing, signal } = { closing: aborts.closing.signal, signal: aborts.signal.signal };
    const limits = { deadlineMs: 3_600_000, retries: 1, signal };
    const asked = refusing(limited("calls-per-second", retryInfo({ seconds: 1_800n })));
    const outcome = unary({ closing, keepsAlive: true, channel: CHANNEL }, limits, asked.send);
    await new Promise((resolve) => setImmediate(resolve));
    const reason = new Error("enough");
    aborts[end].abort(reason);
    await assert.rejects(outcome, (error) => error === reason);
    assert.deepEqual(
      [closing, signal].flatMap((waited) => getEventListeners(waited, "abort")),
      [],
    );
  });
}

test("the next address is tried at once, and without retries each is tried once", async () => {
  const away = new ConnectError("away", Code.Unavailable);
  const limits = { deadlineMs: 60_000, retries: 0 };
  const route = new Route(3);
  const asked = refusing(away, away, away, away);
  await assert.rejects(unary({ ...TARGET, channel: { ...CHANNEL, route } }, limits, asked.send), /away/);
  assert.deepEqual([asked.calls(), route.moves], [3, 3]);
  assert.equal(await unary({ ...TARGET, channel: { ...CHANNEL, route } }, limits, asked.send), 5);
  assert.equal(route.moves, 4);
});

test("a replica without an answer is left, after half of a short deadline", async () => {
  const route = new Route(2);
  let calls = 0;
  const send = async ({ headers }: ConnectOptions) => {
    calls++;
    const timeoutMs = Number.parseInt(new Headers(headers).get("grpc-timeout") ?? "", 10);
    if (calls > 1) return timeoutMs;
    await new Promise((resolve) => setTimeout(resolve, timeoutMs));
    throw new ConnectError("late", Code.DeadlineExceeded);
  };
  const left = await unary({ ...TARGET, channel: { ...CHANNEL, route } }, { deadlineMs: 400, retries: 0 }, send);
  assert.ok(left <= 200, `${left}`);
  assert.deepEqual([calls, route.moves], [2, 1]);
});

test("calls that fail at one replica move the client once", () => {
  const moved: number[] = [];
  const route = new Route(3, (moves) => moved.push(moves));
  assert.ok([0, 0, 1].every((moves) => route.moveOn(moves)));
  assert.deepEqual(moved, [1, 2]);
  assert.ok(!new Route(1).moveOn(0));
  assert.deepEqual(
    shuffled([1, 2, 3], () => 0),
    [2, 3, 1],
  );
});
