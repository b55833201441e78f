import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { LimitExceededError } from "../../src/errors.js";
import { Backoff, unary } from "../../src/retry.js";
import { limited, retryInfo } from "../support/limited.js";

const LINE = { closing: new AbortController().signal, keepsAlive: true };

/** Something that is called: it is refused with each of these, then answers how often it was called. */
function refusing(...refusals: Error[]) {
  let calls = 0;
  const send = async () => {
    const refusal = refusals[calls++];
    if (refusal !== undefined) throw refusal;
    return calls;
  };
  return { send, calls: () => calls };
}

test("pauses double up to the longest, each with up to as much again at random", () => {
  const backoff = new Backoff(25, 1_000);
  for (let round = 0; round < 2; round++) {
    for (const least of [25, 50, 100, 200, 400, 800, 1_000, 1_000]) {
      const pause = backoff.next();
      assert.ok(pause >= least && pause < 2 * least, `${pause} of ${least}`);
    }
    backoff.reset();
  }
});

test("too many calls a second are waited for as long as the server says, and called again", async () => {
  const patience = { deadlineMs: 60_000, retries: Number.POSITIVE_INFINITY };
  const asked = refusing(
    limited("calls-per-second", retryInfo({ nanos: 200_000_000 })),
    limited("calls-per-second-per-caller", retryInfo({ nanos: 300_000_000 })),
  );
  const started = performance.now();
  assert.equal(await unary(LINE, patience, asked.send), 3);
  // Node's timers may be a millisecond early; the random pauses are longer.
  assert.ok(performance.now() - started >= 500);
  const untold = performance.now();
  assert.equal(await unary(LINE, patience, refusing(limited("calls-per-second")).send), 2);
  assert.ok(performance.now() - untold >= 1_000);
});

test("a wait that would pass the deadline is not begun, nor one more than was allowed", async () => {
  const late = refusing(limited("calls-per-second", retryInfo({ seconds: 60n })));
  const patience = { deadlineMs: 60_000, retries: Number.POSITIVE_INFINITY };
  await assert.rejects(unary(LINE, patience, late.send), { limit: "calls-per-second", retryAfterMs: 60_000 });
  assert.equal(late.calls(), 1);
  const soon = () => limited("calls-per-second", retryInfo({}));
  const often = refusing(soon(), soon(), soon());
  await assert.rejects(unary(LINE, { ...patience, retries: 1 }, often.send), LimitExceededError);
  assert.equal(often.calls(), 2);
});

test("a wait longer than any timer is no short one", async () => {
  const closing = new AbortController();
  const asked = refusing(limited("calls-per-second", retryInfo({ seconds: 10_000_000_000n })));
  const patience = { deadlineMs: Number.POSITIVE_INFINITY, retries: Number.POSITIVE_INFINITY };
  const call = unary({ closing: closing.signal, keepsAlive: true }, patience, asked.send);
  const reason = new Error("closed");
  setTimeout(() => closing.abort(reason), 200);
  await assert.rejects(call, reason);
  assert.equal(asked.calls(), 1);
});

test("any other limit is not called again", async () => {
  for (const limit of ["open-elicitations-per-caller", "streams", ""]) {
    const asked = refusing(limited(limit, retryInfo({})));
    const patience = { deadlineMs: 60_000, retries: Number.POSITIVE_INFINITY };
    await assert.rejects(unary(LINE, patience, asked.send), { name: "LimitExceededError", limit });
    assert.equal(asked.calls(), 1);
  }
});

for (const end of ["closing", "signal"] as const) {
  test(`the pause before the next attempt ends with the ${end === "closing" ? "client" : "call's own signal"}`, async () => {
    const aborts = { closing: new AbortController(), signal: new AbortController() };
    const { closing, signal } = { closing: aborts.closing.signal, signal: aborts.signal.signal };
    const patience = { deadlineMs: 3_600_000, retries: 1, signal };
    const asked = refusing(limited("calls-per-second", retryInfo({ seconds: 1_800n })));
    const outcome = unary({ closing, keepsAlive: true }, patience, asked.send);
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
