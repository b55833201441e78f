import assert from "node:assert/strict";
import { test } from "node:test";
import { unavailable } from "../../src/errors.js";
import { Follower, type States } from "../../src/stopwatch/follower.js";
import { Stopwatch } from "../../src/stopwatch/stopwatch.js";
import type { WatchEvent } from "../../src/watch/event.js";
import { ManualClock, settled } from "../support/clock.js";

/** A watch that tells what a test wants, and a follower of it whose coordinator never answers. */
class Scene implements States {
  readonly clock = new ManualClock();
  readonly calls: string[] = [];
  readonly #events: WatchEvent[] = [];
  #wake = () => {};
  #ended = false;
  readonly #coordinator = { ask: () => new Promise<never>(() => undefined), graceMs: 10_000 };
  readonly follower = new Follower(this, this.#coordinator, this.clock, () => this.calls.push("idle"));

  add(threadId: string): void {
    if (threadId === "") throw new RangeError("bad");
    this.calls.push(`add ${threadId}`);
  }

  remove(threadId: string): void {
    this.calls.push(`remove ${threadId}`);
  }

  async tell(...events: WatchEvent[]): Promise<void> {
    this.#events.push(...events);
    this.#wake();
    await settled();
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.tell();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent> {
    while (!this.#ended) {
      yield* this.#events.splice(0);
      if (this.#events.length > 0) continue;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  start(threadId: string) {
    const stopwatch = new Stopwatch(60_000, Number.POSITIVE_INFINITY, this.clock, () => undefined);
    return { stopwatch, ...this.follower.register(threadId, stopwatch) };
  }
}

function state(threadId: string, paused: boolean, revision: bigint, pausedTotalMs = 0): WatchEvent {
  const count = paused ? 1 : 0;
  const told = { threadId, count, paused, revision, pausedTotalMs, elicitations: [], storeEpoch: 1n };
  return { type: "state", state: told, gap: revision === 1n, changed: true };
}

test("stopwatches of a thread share one place in the watch, and one record", async () => {
  const scene = new Scene();
  const [first, second] = [scene.start("a"), scene.start("a")];
  scene.start("b");
  assert.deepEqual(scene.calls, ["add a", "add b"]);
  await scene.tell(state("a", true, 1n), state("b", false, 1n), state("stranger", true, 1n));
  assert.deepEqual(
    [first.stopwatch.paused, second.stopwatch.paused, scene.start("b").stopwatch.paused],
    [true, true, false],
  );
});

test("a thread lingers for 30 s after its last stopwatch, and a late joiner knows at once", async () => {
  const scene = new Scene();
  const [first, second] = [scene.start("a"), scene.start("a")];
  await scene.tell(state("a", true, 1n));
  first.leave();
  await scene.clock.advance(60_000);
  second.leave();
  await scene.clock.advance(29_999);
  const third = scene.start("a");
  assert.equal(third.stopwatch.paused, true);
  await scene.clock.advance(60_000);
  assert.deepEqual(scene.calls, ["add a"], "it came back in time");
  third.leave();
  await scene.clock.advance(30_000);
  assert.deepEqual(scene.calls, ["add a", "remove a", "idle"]);
  assert.equal(scene.start("a").stopwatch.paused, false, "forgotten, and begins anew");
  assert.deepEqual(scene.calls, ["add a", "remove a", "idle", "add a"]);
});

test("it is idle when its last thread is forgotten, and not before", async () => {
  const scene = new Scene();
  const [a, b] = [scene.start("a"), scene.start("b")];
  a.leave();
  await scene.clock.advance(29_000);
  b.leave();
  await scene.clock.advance(29_999);
  assert.deepEqual(scene.calls, ["add a", "add b", "remove a"]);
  await scene.clock.advance(1);
  assert.deepEqual(scene.calls, ["add a", "add b", "remove a", "remove b", "idle"]);
});

test("a break concerns the threads that it names; the end of the watch all", async () => {
  const scene = new Scene();
  const [a, b] = [scene.start("a"), scene.start("b")];
  assert.equal(a.thread.linked, false, "nothing is known yet");
  await scene.tell(state("a", false, 1n), state("b", false, 1n), { type: "snapshotComplete" });
  await scene.tell({ type: "disconnected", threadIds: ["a"], error: unavailable("cut"), silentForMs: 0 });
  assert.deepEqual([a.thread.linked, b.thread.linked], [false, true]);
  await scene.end();
  assert.deepEqual([a.thread.linked, b.thread.linked], [false, false]);
});

test("after the end of the watch no thread lingers", async () => {
  const scene = new Scene();
  const [a, b] = [scene.start("a"), scene.start("b")];
  await scene.tell(state("a", false, 1n));
  a.leave();
  await scene.end();
  await scene.clock.advance(0);
  assert.deepEqual(scene.calls, ["add a", "add b", "remove a"]);
  b.leave();
  await scene.clock.advance(0);
  assert.deepEqual(scene.calls, ["add a", "add b", "remove a", "remove b", "idle"]);
});

test("a thread that no watch takes is not kept", () => {
  const scene = new Scene();
  assert.throws(() => scene.start(""), RangeError);
  assert.throws(() => scene.start(""), RangeError);
});
