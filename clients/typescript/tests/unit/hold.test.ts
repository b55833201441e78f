import assert from "node:assert/strict";
import { test } from "node:test";
import type { Calls } from "../../src/calls.js";
import { Hold } from "../../src/hold.js";

/** Calls that are answered at once: so many decrements there were. */
function answering() {
  let decrements = 0;
  const elicitation = { elicitationId: "e", threadId: "t", reason: "", holder: "", createTime: new Date(0) };
  const state = { count: 0, paused: false, revision: 1n };
  const closing = new AbortController().signal;
  const calls = {
    closing,
    channel: { closing, releasing: () => undefined },
    deadlineMs: 5_000,
    increment: async () => ({ ...state, elicitation, watchers: 0 }),
    decrement: async () => {
      decrements++;
      return state;
    },
  } as unknown as Calls;
  return { lanes: { foreground: calls, background: calls }, decrements: () => decrements };
}

test("an abort closes a hold that was not returned, and never a returned one, however close the two are", async () => {
  const outcomes = new Set<string>();
  for (let ticks = 0; ticks < 20; ticks++) {
    const { lanes, decrements } = answering();
    const abort = new AbortController();
    const opened = Hold.open(lanes, "t", { signal: abort.signal }).then(
      (hold) => ({ hold }),
      () => ({ hold: undefined }),
    );
    for (let tick = 0; tick < ticks; tick++) await undefined;
    abort.abort();
    const { hold } = await opened;
    await new Promise((resolve) => setImmediate(resolve));
    outcomes.add(`${hold === undefined ? "aborted" : "given"}, closed ${decrements()} times`);
    await hold?.release();
  }
  assert.deepEqual([...outcomes], ["aborted, closed 1 times", "given, closed 0 times"]);
});
