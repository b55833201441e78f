/** How long any of several threads has been paused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { PausedUnion } from "../../src/stopwatch/paused-union.js";

/** The threads "0", "1", …, each with its paused time. */
function times(...pausedTimes: number[]): Map<string, number> {
  return new Map(pausedTimes.map((pausedTime, number) => [`${number}`, pausedTime]));
}

function union(now: number, ...pausedTimes: number[]): PausedUnion {
  const union = new PausedUnion(now);
  for (const [name, pausedTime] of times(...pausedTimes)) union.add(name, pausedTime);
  return union;
}

test("a single thread counts exactly, also after a correction", () => {
  const alone = union(0, 0);
  for (const [now, pausedTime] of [
    [5, 3],
    [6, 2],
    [7, 7],
    [7, 9],
    [8, -1],
  ] as const) {
    assert.equal(alone.total(now, times(pausedTime)), pausedTime);
  }
});

test("g3: pauses that overlap count once", () => {
  // One is paused from 10 to 20, the other from 15 to 40.
  const both = union(0, 100, 200);
  both.settle(10, times(100, 200));
  both.settle(15, times(105, 200));
  assert.equal(both.total(18, times(108, 203)), 8);
  both.settle(20, times(110, 205));
  assert.equal(both.total(30, times(110, 215)), 20);
  both.settle(40, times(110, 225));
  assert.equal(both.total(50, times(110, 225)), 30);
});

test("g1: a gap counts as the largest possible union", () => {
  // From 10 to 20, of which only the paused times are known afterwards.
  for (const [one, other, counts] of [
    [4, 5, 9],
    [8, 7, 10],
    [0, 6, 6],
    [0, 0, 0],
    [10, 10, 10],
    [12, 1, 12],
    [-3, 0, 0],
    [-3, 5, 5],
  ] as const) {
    const both = union(0, 0, 0);
    both.settle(10, times(10, 0));
    assert.equal(both.total(20, times(10 + one, other)), 10 + counts, `${one}, ${other}`);
    both.settle(20, times(10 + one, other));
    assert.equal(both.total(30, times(10 + one, other)), 10 + counts);
  }
});

test("a removed thread counts until its removal, and an added one from its addition", () => {
  const changing = union(0, 0, 0);
  const two = (own: number, added: number) =>
    new Map([
      ["0", own],
      ["2", added],
    ]);
  changing.settle(10, times(0, 0));
  changing.remove("1", 6);
  assert.equal(changing.total(16, times(0)), 6);
  changing.add("2", 1_000);
  assert.equal(changing.total(20, two(2, 1_001)), 9);
  assert.equal(changing.total(20, two(9, 1_009)), 10, "never more than the gap");
  changing.settle(20, two(2, 1_001));
  assert.equal(changing.total(30, two(2, 1_011)), 19);
});

test("settling before the mark changes nothing", () => {
  const both = union(0, 0, 0);
  both.settle(20, times(10, 0));
  both.settle(15, times(5, 0));
  assert.equal(both.total(20, times(10, 0)), 10);
});
