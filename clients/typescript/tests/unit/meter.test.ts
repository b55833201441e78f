import assert from "node:assert/strict";
import { test } from "node:test";
import { Meter } from "../../src/stopwatch/meter.js";

/** With a limit of 10, started at 100. */
const started = () => new Meter(10, 100);
const at = (time: number) => 100 + time;

test("g3: charged is wall time less the thread's paused time", () => {
  const meter = started();
  assert.equal(meter.charged(at(5), 2), 3);
  assert.equal(meter.left(at(12), 2), 0);
  assert.equal(meter.left(at(11), 2), 1);
});

test("pauses nest", () => {
  const meter = started();
  meter.pause(at(1), 0);
  meter.pause(at(2), 0);
  assert.equal(meter.resume(at(3), 0), false);
  assert.equal(meter.charged(at(4), 0), 1);
  assert.equal(meter.resume(at(5), 0), true);
  assert.equal(meter.charged(at(6), 0), 2);
});

test("g3: overlapping pauses count once and never below zero", () => {
  const meter = started();
  // Its own from 0 to 10, the thread's from 5 to 15.
  meter.pause(at(0), 0);
  meter.resume(at(10), 5);
  assert.equal(meter.charged(at(15), 10), 0);
  assert.equal(meter.charged(at(16), 10), 1);
});

test("paused time from before its own pause is not lost", () => {
  const meter = started();
  // Cut off: 4 were charged, of which 3 were paused; that is learnt 1 into a pause of its own.
  meter.pause(at(4), 0);
  assert.equal(meter.charged(at(5), 3), 2, "1 of the 3 may be the last one");
  meter.resume(at(5), 3);
  assert.equal(meter.charged(at(6), 3), 3);
});

test("less paused time than was assumed is charged after all", () => {
  const meter = started();
  assert.equal(meter.charged(at(5), 4), 1);
  meter.settle(at(5), 4);
  assert.equal(meter.charged(at(5), 1), 4);
  meter.pause(at(5), 4);
  assert.equal(meter.charged(at(6), 1), 4, "during a pause of its own too");
});

test("what is shown never goes backwards", () => {
  const meter = started();
  assert.equal(meter.elapsed(at(5), 0), 5);
  assert.equal(meter.elapsed(at(6), 4), 5, "late paused time of 4 is a standstill");
  assert.equal(meter.elapsed(at(10), 4), 6);
  assert.equal(meter.left(at(14), 4), 0);
});

test("more paused time than time is not spent later", () => {
  const meter = started();
  assert.equal(meter.charged(at(2), 3_600), 0);
  assert.equal(meter.charged(at(5), 3_600), 3);
});

test("the ends are safe", () => {
  const meter = new Meter(Number.POSITIVE_INFINITY, 100);
  assert.equal(meter.left(at(1e15), 0), Number.POSITIVE_INFINITY);
  assert.equal(meter.charged(at(1), Number.MAX_VALUE), 0);
  assert.equal(meter.charged(at(0), Number.MAX_VALUE), 0, "a clock that went back");
  assert.equal(meter.resume(at(1), 0), true, "one resume too many is harmless");
  assert.equal(meter.paused, false);
});
