import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { onAbort } from "../../src/abort.js";

test("each callback of a signal receives its reason once, and a signal has one listener", () => {
  const abort = new AbortController();
  const other = new AbortController();
  const reasons: unknown[] = [];
  for (const _ of Array(3)) onAbort([undefined, abort.signal, other.signal], (reason) => reasons.push(reason));
  assert.equal(getEventListeners(abort.signal, "abort").length, 1);
  abort.abort("first");
  other.abort("second");
  assert.deepEqual(reasons, ["first", "first", "first"]);
  assert.equal(getEventListeners(other.signal, "abort").length, 0);
});

test("a signal that is aborted already counts at once", () => {
  const reasons: unknown[] = [];
  const other = new AbortController();
  onAbort([other.signal, AbortSignal.abort("before")], (reason) => reasons.push(reason));
  assert.deepEqual([reasons, getEventListeners(other.signal, "abort")], [["before"], []]);
});

test("a callback that was ended is not called, not even by the callback before it, and leaves no listener", () => {
  const abort = new AbortController();
  const called: string[] = [];
  onAbort([abort.signal], () => {
    called.push("first");
    stopSecond();
  });
  const stopSecond = onAbort([abort.signal], () => called.push("second"));
  const stopThird = onAbort([abort.signal], () => called.push("third"));
  stopThird();
  stopThird();
  abort.abort();
  assert.deepEqual(called, ["first"]);

  const unused = new AbortController();
  onAbort([unused.signal], () => undefined)();
  assert.equal(getEventListeners(unused.signal, "abort").length, 0);
});
