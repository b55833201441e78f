import assert from "node:assert/strict";
import { test } from "node:test";
import { difference } from "../../src/stopwatch/clock.js";

const HOUR_MS = 3_600_000;

test("an interruption between the clocks is no sleep", () => {
  for (const interruptions of [[], [0, 0, 500], [0, 500], [0, 0, 500, 0, 0, 500, 0, 500, 500], [900, 9, 0]]) {
    let [now, next] = [7_000, 0];
    // The process is interrupted before each reading of a clock, for so many milliseconds.
    const tick = () => {
      now += interruptions[next++] ?? 0;
      return now;
    };
    assert.equal(
      difference(tick, () => tick() + HOUR_MS),
      HOUR_MS,
      `${interruptions}`,
    );
  }
});
