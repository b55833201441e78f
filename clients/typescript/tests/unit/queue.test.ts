import assert from "node:assert/strict";
import { test } from "node:test";
import { unavailable } from "../../src/errors.js";
import type { PauseState } from "../../src/messages.js";
import type { WatchEvent } from "../../src/watch/event.js";
import { EventQueue, type Reported } from "../../src/watch/queue.js";

const ERROR = unavailable("cut");

function state(threadId: string, revision: bigint): PauseState {
  return { threadId, count: 0, paused: false, revision, pausedTotalMs: 0, elicitations: [], storeEpoch: 1n };
}

/** Events in short: `a1` is revision 1 of thread a, with `+` after a gap and `=` if nothing has changed. */
function drain(queue: EventQueue): string[] {
  const short = (event: WatchEvent) =>
    event.type === "state"
      ? `${event.state.threadId}${event.state.revision}${event.gap ? "+" : ""}${event.changed ? "" : "="}`
      : event.type === "disconnected"
        ? `cut(${event.threadIds.join()})`
        : "complete";
  const events: string[] = [];
  for (let event = queue.shift(); event !== undefined; event = queue.shift()) events.push(short(event));
  return events;
}

const newReported = (): Reported => ({ version: undefined });

test("g7: a slow reader gets the latest state of each thread", () => {
  const queue = new EventQueue();
  const [a, b] = [newReported(), newReported()];
  queue.state(state("a", 1n), true, a);
  queue.state(state("b", 1n), true, b);
  queue.snapshotComplete();
  for (let revision = 2n; revision < 5_000n; revision++) queue.state(state("a", revision), false, a);
  assert.equal(queue.size, 3);
  assert.deepEqual(drain(queue), ["a4999+", "b1+", "complete"]);
});

test("changed compares with the state that the reader read last", () => {
  const queue = new EventQueue();
  const a = newReported();
  queue.state(state("a", 1n), true, a);
  assert.deepEqual(drain(queue), ["a1+"]);
  queue.disconnected(["a"], ERROR);
  queue.state(state("a", 1n), true, a);
  assert.deepEqual(drain(queue), ["cut(a)", "a1+="]);
  queue.state(state("a", 2n), false, a);
  queue.disconnected(["a"], ERROR);
  queue.state(state("a", 2n), true, a);
  assert.deepEqual(drain(queue), ["cut(a)", "a2+"], "the change was not read before the break");
});

test("a state that was queued before a disconnect is reported again after it", () => {
  const queue = new EventQueue();
  const [a, b] = [newReported(), newReported()];
  queue.state(state("a", 1n), true, a);
  queue.state(state("b", 1n), true, b);
  queue.snapshotComplete();
  queue.disconnected(["a"], ERROR);
  queue.state(state("a", 2n), true, a);
  queue.state(state("b", 2n), false, b);
  assert.deepEqual(drain(queue), ["b2+", "cut(a)", "a2+"]);
});

test("a queued state is not lost by a disconnect", () => {
  const queue = new EventQueue();
  queue.state(state("a", 1n), true, newReported());
  queue.disconnected(undefined, ERROR);
  assert.deepEqual(drain(queue), ["a1+", "cut()"]);
});

test("unread disconnects are merged, for the threads that are still disconnected", () => {
  const queue = new EventQueue();
  const [a, b, c] = [newReported(), newReported(), newReported()];
  queue.disconnected(["a", "b"], ERROR);
  queue.state(state("a", 1n), true, a);
  queue.disconnected(["c"], ERROR);
  queue.state(state("c", 1n), true, c);
  queue.snapshotComplete();
  queue.snapshotComplete();
  assert.deepEqual(drain(queue), ["a1+", "cut(c,b)", "c1+", "complete"]);
  queue.state(state("b", 1n), true, b);
  assert.deepEqual(drain(queue), ["b1+"]);
});

test("a state of another epoch is a change whatever its revision", () => {
  const queue = new EventQueue();
  const a = newReported();
  queue.state(state("a", 1n), true, a);
  assert.deepEqual(drain(queue), ["a1+"]);
  queue.state({ ...state("a", 1n), storeEpoch: 2n }, true, a);
  const event = queue.shift();
  assert.ok(event?.type === "state" && event.changed);
});

test("no thread id collides with another kind of event", () => {
  const queue = new EventQueue();
  queue.state(state("disconnected", 1n), true, newReported());
  queue.state(state("snapshotComplete", 1n), true, newReported());
  queue.disconnected(["disconnected"], ERROR);
  assert.deepEqual(drain(queue), ["disconnected1+", "snapshotComplete1+", "cut(disconnected)"]);
});
