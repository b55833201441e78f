import assert from "node:assert/strict";
import { test } from "node:test";
import { Covered } from "../../src/stopwatch/covered.js";
import { Meter } from "../../src/stopwatch/meter.js";
import { known, testEach } from "../support/vectors.js";

interface Step {
  readonly at_ms: number;
  readonly paused_ms: number;
  readonly do?: "pause" | "resume";
  readonly expect?: Partial<Record<"charged_ms" | "left_ms" | "shown_ms" | "remaining_ms", number>>;
}

interface Case {
  readonly name: string;
  readonly start: { at_ms: number; paused_ms: number; limit_ms: number };
  readonly steps: Step[];
}

testEach<Case>("meter.json", (one) => {
  known(one, "name", "start", "steps");
  const { start, steps } = one;
  known(start, "at_ms", "paused_ms", "limit_ms");
  const meter = new Meter(start.limit_ms, start.at_ms);
  for (const step of steps) {
    known(step, "at_ms", "paused_ms", "do", "expect");
    const now = [step.at_ms, step.paused_ms - start.paused_ms] as const;
    if (step.do === "pause") meter.pause(...now);
    if (step.do === "resume") meter.resume(...now);
    if (step.expect === undefined) continue;
    known(step.expect, "charged_ms", "left_ms", "shown_ms", "remaining_ms");
    const shown = () => meter.elapsed(...now);
    const found = {
      charged_ms: () => meter.charged(...now),
      left_ms: () => meter.left(...now),
      shown_ms: shown,
      remaining_ms: () => Math.max(start.limit_ms - shown(), 0),
    };
    for (const [key, expected] of Object.entries(step.expect)) {
      assert.equal(found[key as keyof typeof found](), expected, `${key} at ${step.at_ms}`);
    }
  }
});

test("of many pauses the oldest may be taken for one", () => {
  const covered = new Covered();
  for (let begin = 0; begin < 200; begin += 2) covered.add(begin, begin + 1);
  assert.equal(covered.beyond(190), 5);
  assert.ok(covered.beyond(0) >= 100, "never less than there is");
  covered.cut(193);
  assert.equal(covered.beyond(190), 2);
  covered.cut(0);
  assert.equal(covered.beyond(0), 0);
});

test("extreme values are safe", () => {
  const meter = new Meter(Number.POSITIVE_INFINITY, 100);
  assert.equal(meter.left(1e15, 0), Number.POSITIVE_INFINITY);
  assert.equal(meter.charged(101, Number.MAX_VALUE), 0);
  assert.equal(meter.charged(100, Number.MAX_VALUE), 0, "a clock that went back");
});
