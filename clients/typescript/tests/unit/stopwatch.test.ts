import assert from "node:assert/strict";
import { test } from "node:test";
import type { PauseState } from "../../src/messages.js";
import { Stopwatch } from "../../src/stopwatch/stopwatch.js";
import { ThreadClock } from "../../src/stopwatch/thread.js";
import { ManualClock, settled } from "../support/clock.js";
import { Confirmations } from "../support/confirmations.js";

/** A thread whose coordinator answers when the test says so. */
class Scene {
  readonly clock = new ManualClock();
  readonly confirmations = new Confirmations(this.clock);
  readonly thread: ThreadClock;

  constructor(graceMs = 30_000) {
    this.thread = new ThreadClock("t", this.confirmations, graceMs, this.clock);
  }

  get questions(): number {
    return this.confirmations.asked.length;
  }

  /** The thread has been `paused` since now, or runs, by the watch. */
  tell(revision: bigint, paused: boolean, pausedTotalMs: number): void {
    this.thread.apply(state(revision, paused, pausedTotalMs));
  }

  start(limitMs: number, maxWallMs = Number.POSITIVE_INFINITY): Stopwatch & { expiries: number } {
    const watched = { expiries: 0 };
    const stopwatch = new Stopwatch(limitMs, maxWallMs, this.thread, this.clock, () => watched.expiries++);
    stopwatch.start();
    return Object.defineProperty(stopwatch, "expiries", { get: () => watched.expiries }) as never;
  }

  async answer(answer: PauseState): Promise<void> {
    this.confirmations.answer(this.thread, answer);
    await settled();
  }
}

function state(revision: bigint, paused: boolean, pausedTotalMs: number): PauseState {
  return { threadId: "t", count: paused ? 1 : 0, paused, revision, pausedTotalMs, elicitations: [], storeEpoch: 1n };
}

test("g1: it expires only after an answer that the thread runs", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(1_000);
  await scene.clock.advance(1_200);
  assert.equal(stopwatch.expired, false, "the answer is not there yet");
  assert.equal(scene.questions, 1);
  await scene.answer(state(1n, false, 0));
  assert.deepEqual([stopwatch.expired, stopwatch.expiries], [true, 1]);
});

test("neither a pause nor a confirmation extends the limit on wall time", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const paused = scene.start(1_000, 60_000);
  const own = scene.start(1_000, 60_000);
  own.pause();
  await scene.clock.advance(500);
  scene.tell(2n, true, 0);
  await scene.clock.advance(59_499);
  assert.deepEqual([paused.expired, own.expired], [false, false]);
  await scene.clock.advance(1);
  assert.deepEqual([paused.endedBy, own.endedBy], ["maxWall", "maxWall"]);
  assert.deepEqual([paused.expiries, own.expiries, scene.questions, scene.clock.timers], [1, 1, 0, 0]);
  assert.equal(Math.round(paused.elapsedMs), 500);
});

test("an unanswered or failed confirmation does not extend it either", async () => {
  for (const failed of [false, true]) {
    const scene = new Scene();
    scene.tell(1n, false, 0);
    const stopwatch = scene.start(1_000, 1_200);
    await scene.clock.advance(1_000);
    if (failed) scene.confirmations.break(scene.thread);
    await settled();
    await scene.clock.advance(199);
    assert.equal(stopwatch.expired, false);
    await scene.clock.advance(1);
    assert.equal(stopwatch.endedBy, "maxWall");
  }
});

test("the earlier limit ends it, and it stays expired", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const limited = scene.start(1_000, 60_000);
  const stopped = scene.start(1_000, 60_000);
  stopped.stop();
  const atOnce = scene.start(1_000, 0);
  assert.equal(atOnce.expired, false, "who started it can still listen");
  await scene.clock.advance(1_000);
  await scene.answer(state(1n, false, 0));
  await scene.clock.advance(60_000);
  assert.deepEqual([limited.endedBy, stopped.endedBy, atOnce.endedBy], ["limit", undefined, "maxWall"]);
  assert.deepEqual([limited.expiries, stopped.expiries, atOnce.expiries], [1, 0, 1]);
});

test("g1: an increment that the watch has not delivered yet is found by the confirmation", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(1_000);
  await scene.clock.advance(1_000);
  await scene.answer(state(2n, true, 1));
  assert.deepEqual([stopwatch.expired, stopwatch.paused], [false, true]);
  await scene.clock.advance(60_000);
  assert.equal(stopwatch.expired, false);
  scene.tell(3n, false, 60_001);
  await scene.clock.advance(1);
  assert.equal(scene.questions, 1, "and asks again when the time is out for the second time");
  await scene.answer(state(3n, false, 60_001));
  assert.equal(stopwatch.expired, true);
});

test("g1: a confirmation requested before the time ran out does not count", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const early = scene.start(1_000);
  const late = scene.start(1_100);
  await scene.clock.advance(1_100);
  assert.equal(scene.questions, 1, "one question at a time");
  await scene.answer(state(1n, false, 0));
  assert.deepEqual([early.expired, late.expired], [true, false]);
  assert.equal(scene.questions, 1, "a second one for the later stopwatch");
  await scene.answer(state(2n, true, 0));
  assert.deepEqual([late.expired, late.paused], [false, true]);
});

test("confirmations of one moment are shared", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const stopwatches = Array.from({ length: 1_000 }, () => scene.start(1_000));
  await scene.clock.advance(1_000);
  assert.equal(scene.questions, 1);
  await scene.answer(state(1n, false, 0));
  assert.ok(stopwatches.every(({ expired }) => expired));
});

test("a pause wakes no stopwatch, and a resume those that found the pause", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const short = scene.start(1_000);
  scene.start(100_000);
  scene.tell(2n, true, 0);
  assert.equal(scene.clock.timers, 2, "both still wait for their timers");
  await scene.clock.advance(1_000);
  assert.equal(scene.clock.timers, 1, "the short one stands still, and waits for the resume");
  scene.tell(3n, false, 1_000);
  assert.equal(scene.clock.timers, 2);
  assert.equal(Math.round(short.elapsedMs), 0);
});

test("g2: after a disconnect it waits for the grace and no longer", async () => {
  const scene = new Scene(2_000);
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(1_000);
  scene.confirmations.isOpen = false;
  scene.thread.disconnect();
  await scene.clock.advance(1_000);
  for (let waited = 0; waited < 2_000; waited += 100) {
    assert.equal(stopwatch.expired, false);
    scene.confirmations.break(scene.thread);
    await scene.clock.advance(100);
  }
  assert.equal(stopwatch.expired, true);
});

test("a confirmation gets 250 ms, however short the grace is", async () => {
  const scene = new Scene(0);
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(1_000);
  await scene.clock.advance(1_249);
  assert.equal(stopwatch.expired, false);
  await scene.clock.advance(1);
  assert.equal(stopwatch.expired, true);
});

test("g2: an unconfirmed pause counts for the grace, and then the time runs", async () => {
  const scene = new Scene(2_000);
  scene.tell(1n, true, 0);
  const stopwatch = scene.start(1_000);
  scene.thread.disconnect();
  await scene.clock.advance(2_500);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [false, 500]);
});

test("g3: a late join starts paused without earlier credit", async () => {
  const scene = new Scene();
  const stopwatch = scene.start(1_000);
  await scene.clock.advance(10);
  scene.tell(5n, true, 3_600_000);
  await scene.clock.advance(5_000);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [true, 0]);
  const second = scene.start(1_000);
  assert.equal(second.paused, true);
  scene.tell(6n, false, 3_605_000);
  await scene.clock.advance(400);
  assert.deepEqual([stopwatch.elapsedMs, second.elapsedMs], [400, 400]);
});

for (const noticed of [true, false]) {
  const link = noticed ? "a cut link" : "a dead link";
  test(`g1: who joins over ${link} is not charged what was assumed before`, async () => {
    const scene = new Scene();
    scene.tell(1n, true, 0);
    const old = scene.start(300_000);
    await scene.clock.advance(1_000);
    // Resumed, but no event is delivered.
    if (noticed) scene.thread.disconnect();
    await scene.clock.advance(8_000);
    const late = scene.start(5_000);
    await scene.clock.advance(400);
    if (!noticed) scene.thread.disconnect();
    scene.tell(2n, false, 1_000);
    assert.deepEqual([late.elapsedMs, old.elapsedMs], [400, 8_400]);
    await scene.clock.advance(4_599);
    assert.equal(scene.questions, 0);
    await scene.clock.advance(1);
    await scene.answer(state(2n, false, 1_000));
    assert.equal(late.expired, true);
  });
}

test("g1: who joins in a pause that was not seen is credited the part of it since the join", async () => {
  for (const [pausedTotalMs, pausedForMs, charged] of [
    [50_000, 2_000, 0],
    [40_000, 2_000, 0],
    [50_000, 1_000, 1_000],
    [40_000, 1_000, 1_000],
    [40_000, 900_000, 0],
    [51_000, 1_000, 1_000],
  ] as const) {
    const scene = new Scene(3_600_000);
    scene.tell(1n, true, 0);
    scene.thread.disconnect();
    await scene.clock.advance(50_000);
    const late = scene.start(300_000);
    await scene.clock.advance(2_000);
    scene.thread.apply({ ...state(3n, true, pausedTotalMs), pausedForMs });
    assert.equal(late.elapsedMs, charged, `${pausedTotalMs}, ${pausedForMs}`);
    await scene.clock.advance(2_000);
    assert.equal(late.elapsedMs, charged, "the pause is still open");
  }
});

test("g1: an own pause is not charged if its thread was not paused after all", async () => {
  const scene = new Scene();
  scene.tell(1n, true, 0);
  scene.thread.disconnect();
  await scene.clock.advance(5_000);
  const late = scene.start(300_000);
  await scene.clock.advance(1_000);
  late.pause();
  await scene.clock.advance(4_000);
  late.resume();
  await scene.clock.advance(2_000);
  scene.tell(2n, false, 0);
  assert.equal(late.elapsedMs, 2_000);
});

test("after its expiry its time does not change, whatever is learnt later", async () => {
  const scene = new Scene(2_000);
  scene.tell(1n, false, 0);
  const limited = scene.start(1_000);
  const walled = scene.start(60_000, 900);
  await scene.clock.advance(1_000);
  await scene.answer(state(1n, false, 0));
  await scene.clock.advance(5_000);
  scene.tell(2n, false, 700);
  limited.stop();
  await scene.clock.advance(5_000);
  assert.deepEqual([limited.endedBy, limited.elapsedMs], ["limit", 1_000]);
  assert.deepEqual([walled.endedBy, walled.elapsedMs], ["maxWall", 900]);
});

test("own pauses nest and stop the timer", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(1_000);
  stopwatch.pause();
  stopwatch.pause();
  assert.equal(scene.clock.timers, 0);
  await scene.clock.advance(5_000);
  stopwatch.resume();
  await scene.clock.advance(5_000);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [true, 0]);
  stopwatch.resume();
  await scene.clock.advance(1_000);
  assert.equal(scene.questions, 1);
});

test("after a stop its time does not change, whatever is learnt later", async () => {
  const scene = new Scene();
  scene.tell(1n, true, 0);
  const stopwatch = scene.start(60_000);
  scene.tell(1n, true, 0);
  scene.thread.disconnect();
  await scene.clock.advance(8_000);
  stopwatch.stop();
  assert.equal(stopwatch.elapsedMs, 0);
  scene.tell(2n, false, 1_000);
  assert.equal(stopwatch.elapsedMs, 0);
});

test("a stopped stopwatch stands still, never expires and leaves no timer", async () => {
  const scene = new Scene();
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(1_000);
  stopwatch.pause();
  await scene.clock.advance(300);
  stopwatch.stop();
  stopwatch.resume();
  await scene.clock.advance(5_000);
  assert.deepEqual([stopwatch.expired, stopwatch.expiries, scene.clock.timers], [false, 0, 0]);
  assert.equal(stopwatch.elapsedMs, 0);
});

test("g2: an unconfirmed pause leaves the confirmation nothing of the grace", async () => {
  const scene = new Scene(5_000);
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(3_000);
  await scene.clock.advance(1_000);
  scene.tell(2n, true, 0);
  await scene.clock.advance(1_000);
  scene.thread.disconnect();
  // 1 s, the pause until 7, its other 2 s, and the least time of a question.
  await scene.clock.advance(7_200);
  assert.equal(stopwatch.expired, false);
  await scene.clock.advance(100);
  assert.equal(stopwatch.expired, true);
});

test("g2: the grace of a silent dead link counts from the last message", async () => {
  const scene = new Scene(20_000);
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(3_000);
  await scene.clock.advance(1_000);
  scene.tell(2n, true, 0);
  await scene.clock.advance(30_000);
  assert.equal(stopwatch.expired, false);
  scene.thread.disconnect(30_000);
  await scene.clock.advance(1_900);
  assert.equal(stopwatch.expired, false, "the coordinator can be asked on a new stream");
  await scene.clock.advance(100);
  assert.equal(stopwatch.expired, true, "its time had run out at 23 s");
});

test("g1: a process that was stopped asks on a new stream before it expires", async () => {
  const scene = new Scene(1_000);
  scene.tell(1n, false, 0);
  const stopwatch = scene.start(5_000);
  scene.clock.take(60_000);
  scene.confirmations.isOpen = false;
  scene.thread.disconnect();
  await scene.clock.advance(1_900);
  assert.equal(stopwatch.expired, false);
  scene.tell(2n, true, 50_000);
  await scene.clock.advance(60_000);
  assert.deepEqual([stopwatch.expired, stopwatch.paused], [false, true]);
});

test("g3: an assumed pause that was none is charged later, but not what was in a pause of its own", async () => {
  for (const [began, ended, charged] of [
    [6_000, 26_000, 1_500],
    [25_000, 26_000, 20_500],
  ] as const) {
    const scene = new Scene();
    const stopwatch = scene.start(60_000);
    scene.tell(1n, true, 0);
    await scene.clock.advance(5_000);
    scene.thread.disconnect();
    await scene.clock.advance(began - 5_000);
    stopwatch.pause();
    await scene.clock.advance(ended - began);
    stopwatch.resume();
    await scene.clock.advance(27_000 - ended);
    assert.equal(Math.round(stopwatch.elapsedMs), 0, "the thread counts as paused");
    scene.tell(2n, false, 5_500);
    assert.equal(Math.round(stopwatch.elapsedMs), charged);
    await scene.clock.advance(1_000);
    assert.equal(Math.round(stopwatch.elapsedMs), charged + 1_000);
  }
});

test("the first state after the start charges nothing of what a pause of its own has used", async () => {
  const scene = new Scene();
  scene.tell(1n, true, 0);
  scene.thread.disconnect();
  await scene.clock.advance(2_000);
  const stopwatch = scene.start(60_000);
  await scene.clock.advance(1_000);
  stopwatch.pause();
  await scene.clock.advance(5_000);
  stopwatch.resume();
  await scene.clock.advance(2_000);
  scene.tell(2n, false, 0);
  assert.equal(Math.round(stopwatch.elapsedMs), 2_000);
});
