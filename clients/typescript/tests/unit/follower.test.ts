import assert from "node:assert/strict";
import { test } from "node:test";
import { unavailable } from "../../src/errors.js";
import { Log } from "../../src/log.js";
import type { PauseState } from "../../src/messages.js";
import { Follower, type Stream } from "../../src/stopwatch/follower.js";
import { type Link, LinkReporter } from "../../src/stopwatch/link.js";
import { Stopwatch } from "../../src/stopwatch/stopwatch.js";
import { PausableTimeout } from "../../src/stopwatch/timeout.js";
import type { Listener } from "../../src/watch/stream.js";
import { ManualClock, settled } from "../support/clock.js";

/** A stream that tells what a test wants, and a follower of it. */
class Scene implements Stream {
  readonly clock = new ManualClock();
  readonly calls: string[] = [];
  readonly isOpen = true;
  listener: Listener | undefined;
  readonly watched = new Set<string>();
  /** How long it takes to add a thread, in milliseconds. */
  addTakes = 0;
  readonly links: Link[] = [];
  readonly logged: string[] = [];
  readonly logger = {
    info: (message: string) => void this.logged.push(`info ${message}`),
    warn: (message: string) => void this.logged.push(`warn ${message}`),
  };
  readonly follower = new Follower(
    (listener) => {
      this.listener = listener;
      return this;
    },
    10_000,
    this.clock,
    () => this.calls.push("idle"),
    new LinkReporter(10_000, this.clock, new Log(this.logger), (link) => this.links.push(link)),
  );

  start(): void {}

  close(): void {
    this.calls.push("close");
  }

  add(threadId: string): void {
    this.clock.take(this.addTakes);
    this.calls.push(`add ${threadId}`);
    this.watched.add(threadId);
  }

  remove(threadId: string): void {
    this.calls.push(`remove ${threadId}`);
    this.watched.delete(threadId);
  }

  confirm(threadId: string): void {
    this.calls.push(`confirm ${threadId}`);
  }

  cancelConfirmation(): void {}

  sentAt(): undefined {
    return undefined;
  }

  watches(threadId: string): boolean {
    return this.watched.has(threadId);
  }

  begin(threadId: string, limitMs = 600_000) {
    const entered = this.follower.enter(threadId);
    const stopwatch = new Stopwatch(limitMs, Number.POSITIVE_INFINITY, entered.thread, this.clock, () => undefined);
    stopwatch.start();
    return { stopwatch, ...entered };
  }

  tell(...states: PauseState[]): void {
    for (const state of states) this.listener?.state(state);
  }
}

function state(threadId: string, paused: boolean, revision: bigint, pausedTotalMs = 0): PauseState {
  return { threadId, count: paused ? 1 : 0, paused, revision, pausedTotalMs, elicitations: [], storeEpoch: 1n };
}

test("stopwatches of a thread share one subscription and one record", () => {
  const scene = new Scene();
  const [first, second] = [scene.begin("a"), scene.begin("a")];
  scene.begin("b");
  assert.deepEqual(scene.calls, ["add a", "add b"]);
  assert.deepEqual([...(scene.listener?.threadIds() ?? [])], ["a", "b"], "a new stream watches all");
  scene.tell(state("a", true, 1n), state("b", false, 1n), state("stranger", true, 1n));
  assert.deepEqual(
    [first.stopwatch.paused, second.stopwatch.paused, scene.begin("b").stopwatch.paused],
    [true, true, false],
  );
});

test("a timeout of a paused thread is not charged for the time that its start takes", async () => {
  const scene = new Scene();
  scene.addTakes = 9;
  const follower = () => {
    scene.clock.take(7);
    return scene.follower;
  };
  const timeout = new PausableTimeout(10_000, Number.POSITIVE_INFINITY, "a", follower, scene.clock);
  await scene.clock.advance(5);
  scene.tell(state("a", true, 1n, 1_600));
  await scene.clock.advance(700);
  assert.deepEqual([timeout.paused, timeout.elapsedMs], [true, 0]);
});

test("a thread lingers for 30 s after its last stopwatch, and a late joiner knows at once", async () => {
  const scene = new Scene();
  const [first, second] = [scene.begin("a"), scene.begin("a")];
  scene.tell(state("a", true, 1n));
  first.leave();
  await scene.clock.advance(60_000);
  second.leave();
  await scene.clock.advance(29_999);
  const third = scene.begin("a");
  assert.equal(third.stopwatch.paused, true);
  await scene.clock.advance(60_000);
  assert.deepEqual(scene.calls, ["add a"], "it came back in time");
  third.leave();
  await scene.clock.advance(30_000);
  assert.deepEqual(scene.calls, ["add a", "remove a", "close", "idle"]);
});

test("it is idle when its last thread is removed, and not before", async () => {
  const scene = new Scene();
  const [a, b] = [scene.begin("a"), scene.begin("b")];
  a.leave();
  await scene.clock.advance(29_000);
  b.leave();
  await scene.clock.advance(29_999);
  assert.deepEqual(scene.calls, ["add a", "add b", "remove a"]);
  await scene.clock.advance(1);
  assert.deepEqual(scene.calls.slice(3), ["remove b", "close", "idle"]);
});

test("a disconnect affects all threads, until their next states", () => {
  const scene = new Scene();
  const [a, b] = [scene.begin("a"), scene.begin("b")];
  assert.equal(a.thread.linked, false, "nothing is known yet");
  scene.tell(state("a", false, 1n), state("b", false, 1n));
  assert.deepEqual([a.thread.linked, b.thread.linked], [true, true]);
  scene.listener?.disconnected(unavailable("cut"), 0);
  scene.tell(state("b", false, 1n));
  assert.deepEqual([a.thread.linked, b.thread.linked], [false, true]);
});

test("one message confirms many threads; one that is not watched is disconnected after it", async () => {
  const scene = new Scene();
  const [a, b] = [scene.begin("a", 1_000), scene.begin("b", 1_000)];
  scene.tell(state("a", false, 1n), state("b", false, 1n));
  await scene.clock.advance(1_000);
  assert.deepEqual(scene.calls.slice(2), ["confirm a", "confirm b"]);
  scene.watched.delete("b");
  scene.listener?.confirmed([state("a", false, 1n), state("b", true, 2n)], scene.clock.now());
  assert.deepEqual([a.stopwatch.expired, b.stopwatch.expired], [true, false]);
  assert.deepEqual([b.stopwatch.paused, b.thread.linked], [true, false]);
});

test("an invalid thread is not followed", () => {
  const scene = new Scene();
  for (let i = 0; i < 2; i++) assert.throws(() => scene.begin(""), { name: "InvalidFieldError" });
  assert.deepEqual(scene.calls, []);
});

test("after it is closed its stopwatches run out without pauses and confirmations", async () => {
  const scene = new Scene();
  const { stopwatch } = scene.begin("a", 10_000);
  scene.tell(state("a", true, 1n));
  await scene.clock.advance(5_000);
  scene.follower.close();
  scene.follower.close();
  assert.deepEqual([stopwatch.paused, stopwatch.linked, stopwatch.elapsedMs], [false, false, 0]);
  const late = scene.begin("b", 10_000).stopwatch;
  await scene.clock.advance(9_999);
  assert.deepEqual([stopwatch.expired, late.expired], [false, false]);
  await scene.clock.advance(1);
  assert.deepEqual([stopwatch.endedBy, late.endedBy], ["limit", "limit"]);
  assert.deepEqual(scene.calls, ["add a", "close"]);
});

test("a logger that throws keeps no disconnect from the threads, and its warning is a process warning", async (t) => {
  const scene = new Scene();
  scene.logger.warn = () => {
    throw new Error("the log is gone");
  };
  const warned = t.mock.method(process, "emitWarning", () => undefined);
  const { stopwatch } = scene.begin("t", 60_000);
  scene.tell(state("t", true, 1n));
  scene.listener?.disconnected(unavailable("gone"), 0);
  assert.deepEqual([stopwatch.paused, stopwatch.linked], [true, false]);
  await scene.clock.advance(10_000);
  assert.equal(stopwatch.paused, false, "the grace is spent");
  scene.logger.info = scene.logger.warn;
  scene.listener?.complete();
  await settled();
  assert.deepEqual(
    scene.links.map(({ state }) => state),
    ["disconnected", "graceSpent", "connected"],
  );
  assert.deepEqual(
    warned.mock.calls.map(({ arguments: [, options] }) => options),
    [{ code: "PAUSEWATCH_LINK" }, { code: "PAUSEWATCH_LINK" }],
  );
});

test("the threads are disconnected before it is reported", () => {
  const scene = new Scene();
  const { thread } = scene.begin("t");
  scene.tell(state("t", true, 1n));
  const linked: boolean[] = [];
  scene.logger.warn = () => void linked.push(thread.linked);
  scene.listener?.disconnected(unavailable("gone"), 0);
  assert.deepEqual(linked, [false]);
});

test("link changes and the end of the grace are reported to the program", async () => {
  const scene = new Scene();
  scene.begin("t");
  const reported = async () => {
    await Promise.resolve();
    return scene.links.map(({ state }) => state);
  };
  scene.listener?.complete();
  scene.listener?.complete();
  assert.deepEqual(await reported(), ["connected"]);
  const error = unavailable("gone");
  scene.listener?.disconnected(error, 2_000);
  scene.listener?.disconnected(error, 0);
  await scene.clock.advance(7_900);
  assert.deepEqual(await reported(), ["connected", "disconnected"]);
  await scene.clock.advance(200);
  assert.deepEqual(await reported(), ["connected", "disconnected", "graceSpent"]);
  const [, lost, spent] = scene.links;
  assert.ok(lost?.state === "disconnected" && spent?.state === "graceSpent");
  assert.ok(
    lost.error === error && spent.error === error && lost.since === spent.since && lost.since.getTime() < Date.now(),
  );
  scene.listener?.complete();
  scene.listener?.disconnected(error, 0);
  scene.listener?.complete();
  await scene.clock.advance(60_000);
  assert.deepEqual((await reported()).slice(3), ["connected", "disconnected", "connected"]);
  assert.deepEqual(
    scene.logged.map((line) => line.split(" ")[0]),
    ["warn", "warn", "info", "warn", "info"],
  );
  scene.follower.close();
  scene.listener?.disconnected(error, 0);
  assert.equal((await reported()).length, 6);
});

test("a thread that is not watched is warned of once", () => {
  const scene = new Scene();
  const { stopwatch } = scene.begin("t");
  for (const _ of [1, 2]) scene.listener?.refused(["t"], unavailable("not yours"));
  assert.deepEqual(scene.logged, [
    "warn pausewatch: a thread is not watched, its timeouts run without its pauses: not yours",
  ]);
  stopwatch.stop();
});
