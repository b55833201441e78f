import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "../../src/retry.js";

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
