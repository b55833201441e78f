import assert from "node:assert/strict";
import { test } from "node:test";
import { PausedTimeTracker } from "../../src/stopwatch/paused-time.js";
import { known, testEach } from "../support/vectors.js";

interface Step {
  readonly at_ms: number;
  readonly slept_ms?: number;
  readonly state?: { epoch: number; revision: number; paused: boolean; total_ms: number };
  readonly disconnect?: boolean;
  readonly since_ms?: number;
  readonly expect?: { paused_ms: number; paused: boolean };
}

testEach<{ name: string; steps: Step[] }>("paused-time.json", (one) => {
  known(one, "name", "steps");
  const tracker = new PausedTimeTracker(0, 30_000);
  for (const step of one.steps) {
    known(step, "at_ms", "slept_ms", "state", "disconnect", "since_ms", "expect");
    const { at_ms: at, slept_ms: slept = 0, state, disconnect, since_ms: since = at, expect } = step;
    if (state !== undefined) {
      known(state, "epoch", "revision", "paused", "total_ms");
      const version = { epoch: BigInt(state.epoch), revision: BigInt(state.revision) };
      tracker.apply({ at, slept }, { version, paused: state.paused, total: state.total_ms });
    }
    if (disconnect) tracker.disconnect(at, since);
    if (expect !== undefined) {
      assert.deepEqual({ paused_ms: tracker.pausedTime(at), paused: tracker.isPaused(at) }, expect);
    }
  }
});

test("waiters check again after a resume, a disconnect during a pause, and a reconnect", () => {
  const tracker = new PausedTimeTracker(0, 30_000);
  const apply = (at: number, revision: bigint, paused: boolean) =>
    tracker.apply({ at, slept: 0 }, { version: { epoch: 1n, revision }, paused, total: 0 });
  assert.equal(apply(0, 1n, false), true, "the first state");
  assert.equal(apply(1, 2n, true), false, "a pause");
  assert.equal(apply(1, 3n, false), true, "a resume");
  assert.equal(tracker.disconnect(2, 2), false, "nobody waits for the resume of a running thread");
  assert.equal(apply(3, 4n, true), true, "it is heard again");
  assert.equal(tracker.disconnect(4, 4), true, "who waits for the resume must now see to itself");
});
