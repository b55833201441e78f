/** A stopwatch of thread "t", with a limit of 10 s, that awaits "child". */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PauseState } from "../../src/messages.js";
import { Stopwatch } from "../../src/stopwatch/stopwatch.js";
import { ThreadClock } from "../../src/stopwatch/thread.js";
import { ManualClock } from "../support/clock.js";
import { Confirmations } from "../support/confirmations.js";

/** Threads that are linked from the beginning; their coordinator answers when the test says so. */
class Family {
  readonly clock = new ManualClock();
  readonly confirmations = new Confirmations(this.clock);
  readonly #threads = new Map<string, ThreadClock>();
  readonly #graceMs: number;
  #revision = 1n;

  constructor(graceMs = 30_000) {
    this.#graceMs = graceMs;
  }

  thread(threadId: string): ThreadClock {
    let thread = this.#threads.get(threadId);
    if (thread === undefined) {
      thread = new ThreadClock(threadId, this.confirmations, this.#graceMs, this.clock);
      this.#threads.set(threadId, thread);
      this.tell(threadId, false, 0);
    }
    return thread;
  }

  tell(threadId: string, paused: boolean, pausedTotalMs: number): void {
    this.thread(threadId).apply(this.#state(threadId, paused, pausedTotalMs));
  }

  start(threadId: string, ...awaited: string[]): Stopwatch {
    const thread = this.thread(threadId);
    const stopwatch = new Stopwatch(10_000, Number.POSITIVE_INFINITY, thread, this.clock, () => undefined);
    stopwatch.start();
    for (const each of awaited) stopwatch.awaitThread(each, () => this.thread(each));
    return stopwatch;
  }

  disconnect(): void {
    for (const thread of this.#threads.values()) thread.disconnect();
  }

  /** Confirms all threads that were asked about. */
  answer(...paused: string[]): void {
    for (const threadId of this.confirmations.asked) {
      this.confirmations.answer(this.thread(threadId), this.#state(threadId, paused.includes(threadId), 0));
    }
  }

  #state(threadId: string, paused: boolean, pausedTotalMs: number): PauseState {
    const revision = this.#revision++;
    return { threadId, count: paused ? 1 : 0, paused, revision, pausedTotalMs, elicitations: [], storeEpoch: 1n };
  }
}

test("g3: it stands still while any thread is paused, and overlaps count once", async () => {
  const family = new Family();
  const stopwatch = family.start("t", "child");
  await family.clock.advance(2_000);
  family.tell("child", true, 0);
  await family.clock.advance(3_000);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [true, 2_000]);
  family.tell("t", true, 0);
  await family.clock.advance(95_000);
  family.tell("child", false, 98_000);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [true, 2_000]);
  await family.clock.advance(100_000);
  family.tell("t", false, 195_000);
  await family.clock.advance(8_000);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [false, 10_000]);
  family.answer();
  assert.equal(stopwatch.expired, true);
});

test("g1: every thread is confirmed before it expires", async () => {
  const family = new Family();
  const stopwatch = family.start("t", "child", "other");
  await family.clock.advance(10_000);
  assert.deepEqual(family.confirmations.asked, ["child", "other", "t"]);
  family.answer("child");
  assert.deepEqual([stopwatch.expired, stopwatch.paused], [false, true]);
  await family.clock.advance(40_000);
  family.tell("child", false, 40_000);
  family.answer();
  assert.equal(stopwatch.expired, true);
});

test("a thread counts as long as something waits for it", async () => {
  const family = new Family();
  const stopwatch = family.start("t", "child", "child");
  await family.clock.advance(1_000);
  family.tell("child", true, 0);
  await family.clock.advance(10_000);
  assert.equal(stopwatch.unawaitThread("child"), false);
  await family.clock.advance(1_000);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [true, 1_000]);
  assert.equal(stopwatch.unawaitThread("child"), true);
  assert.equal(stopwatch.paused, false);
  await family.clock.advance(9_000);
  assert.deepEqual(family.confirmations.asked, ["t"]);
  family.answer();
  assert.equal(stopwatch.expired, true);
});

test("a cycle freezes both while either is paused", async () => {
  const family = new Family();
  const both = [family.start("t", "child"), family.start("child", "t")];
  await family.clock.advance(3_000);
  family.tell("child", true, 0);
  await family.clock.advance(27_000);
  assert.deepEqual(
    both.map(({ elapsedMs }) => elapsedMs),
    [3_000, 3_000],
  );
});

test("g1: a gap counts as the largest possible union", async () => {
  for (const [own, child, counts] of [
    [20_000, 30_000, 50_000],
    [50_000, 40_000, 60_000],
    [0, 60_000, 60_000],
    [60_000, 60_000, 60_000],
    [0, 0, 0],
  ] as const) {
    const family = new Family(120_000);
    const stopwatch = family.start("t", "child");
    await family.clock.advance(1_000);
    family.tell("child", true, 0);
    await family.clock.advance(2_000);
    family.tell("child", false, 2_000);
    family.disconnect();
    await family.clock.advance(60_000);
    family.tell("t", false, own);
    family.tell("child", false, 2_000 + child);
    assert.equal(stopwatch.elapsedMs, 1_000 + 60_000 - counts, `${own}, ${child}`);
  }
});

test("g3: pauses before a gap do not count within it", async () => {
  const family = new Family();
  const stopwatch = family.start("t", "child");
  await family.clock.advance(1_000);
  family.tell("t", true, 0);
  family.tell("child", true, 0);
  await family.clock.advance(30_000);
  family.disconnect();
  await family.clock.advance(2_000);
  family.tell("t", false, 30_000);
  family.tell("child", false, 30_000);
  assert.equal(stopwatch.elapsedMs, 3_000);
});

test("g3: pauses before the child was awaited do not count", async () => {
  const family = new Family();
  const stopwatch = family.start("t");
  const silent = new ThreadClock("child", family.confirmations, 30_000, family.clock);
  await family.clock.advance(1_000);
  family.tell("t", true, 0);
  await family.clock.advance(20_000);
  family.tell("t", false, 20_000);
  await family.clock.advance(4_000);
  stopwatch.awaitThread("child", () => silent);
  family.disconnect();
  await family.clock.advance(15_000);
  family.tell("t", false, 30_000);
  const state = { threadId: "child", count: 0, paused: false, revision: 1n, pausedTotalMs: 10_000 };
  silent.apply({ ...state, elicitations: [], storeEpoch: 1n });
  assert.equal(stopwatch.elapsedMs, 5_000);
});

test("g3: the first state of the own thread credits no pause to a child that was running", async () => {
  const family = new Family();
  const unlinked = new ThreadClock("t", family.confirmations, 30_000, family.clock);
  const stopwatch = new Stopwatch(10_000, Number.POSITIVE_INFINITY, unlinked, family.clock, () => undefined);
  stopwatch.start();
  stopwatch.awaitThread("child", () => family.thread("child"));
  await family.clock.advance(20_000);
  const state = { threadId: "t", count: 1, paused: true, revision: 1n, pausedTotalMs: 15_000, pausedForMs: 15_000 };
  unlinked.apply({ ...state, elicitations: [], storeEpoch: 1n });
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [true, 5_000]);
});

test("g3: a state of the own thread does not count as the first one of a child", async () => {
  const family = new Family();
  const child = family.thread("child");
  const stopwatch = family.start("t", "child");
  await family.clock.advance(2_000);
  family.tell("t", false, 0);
  await family.clock.advance(4_000);
  // The total of a replica can be a little older than its open pause: with the first state, the pause counts.
  const state = { threadId: "child", count: 1, paused: true, revision: 100n, pausedTotalMs: 0, pausedForMs: 4_000 };
  child.apply({ ...state, elicitations: [], storeEpoch: 1n });
  assert.equal(stopwatch.elapsedMs, 2_000);
});

test("g2: after a disconnect a paused child counts for the grace, which is one budget", async () => {
  const family = new Family(5_000);
  const stopwatch = family.start("t", "child");
  await family.clock.advance(1_000);
  family.tell("child", true, 0);
  await family.clock.advance(1_000);
  family.disconnect();
  await family.clock.advance(4_900);
  assert.deepEqual([stopwatch.paused, stopwatch.elapsedMs], [true, 1_000]);
  // The pause until 7 s, the other 9 s, and the least time of a question.
  await family.clock.advance(16_249 - 6_900);
  assert.equal(stopwatch.expired, false);
  await family.clock.advance(1);
  assert.equal(stopwatch.expired, true);
});

test("g2: a child that cannot be confirmed delays it by the grace at most", async () => {
  const family = new Family(5_000);
  const stopwatch = family.start("t", "child");
  await family.clock.advance(10_000);
  for (let waited = 0; waited < 5_000; waited += 250) {
    assert.equal(stopwatch.expired, false);
    family.confirmations.break(family.thread("child"));
    await family.clock.advance(250);
  }
  assert.equal(stopwatch.expired, true);
});
