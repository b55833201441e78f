import assert from "node:assert/strict";
import { test } from "node:test";
import { PausedTimeTracker, type Via } from "../../src/stopwatch/paused-time.js";

const GRACE = 30_000;
const WATCH: Via = { by: "watch", gap: false };
const GAP: Via = { by: "watch", gap: true };
/** Of the states that a test gives no other. */
const EPOCH = 1n;
/** By a question that was put when this revision was known. */
const ask = (revision: bigint | undefined): Via => ({
  by: "asking",
  known: revision === undefined ? undefined : { epoch: EPOCH, revision },
});

/** Times are seconds from the beginning. */
class Thread {
  readonly tracker = new PausedTimeTracker(0, GRACE);
  /** Of the states that are applied next. */
  epoch = EPOCH;

  apply(at: number, revision: bigint, paused: boolean, total: number, via: Via, slept = 0): boolean {
    const seen = { version: { epoch: this.epoch, revision }, paused, total: total * 1_000 };
    return this.tracker.apply({ at: at * 1_000, slept: slept * 1_000 }, seen, via);
  }

  disconnect(at: number): boolean {
    return this.tracker.disconnect(at * 1_000, at * 1_000);
  }

  pausedTime(at: number): number {
    return this.tracker.pausedTime(at * 1_000) / 1_000;
  }

  paused(at: number): boolean {
    return this.tracker.isPaused(at * 1_000);
  }
}

test("g3: pausedTime follows the total and runs on while paused", () => {
  const thread = new Thread();
  thread.apply(0, 4n, false, 100, GAP);
  assert.deepEqual([thread.pausedTime(9), thread.paused(9)], [0, false]);
  assert.equal(thread.apply(10, 5n, true, 100, WATCH), false, "a pause wakes nobody");
  assert.deepEqual([thread.pausedTime(13), thread.paused(13)], [3, true]);
  assert.equal(thread.apply(14, 6n, false, 104, WATCH), true, "a resume does");
  assert.deepEqual([thread.pausedTime(20), thread.paused(20)], [4, false]);
});

test("the first state credits no more than the time since the beginning", () => {
  const paused = new Thread();
  paused.apply(2, 9n, true, 3_600, GAP);
  assert.deepEqual([paused.pausedTime(2), paused.pausedTime(5)], [2, 5]);
  const less = new Thread();
  less.apply(9, 9n, false, 4, GAP);
  assert.equal(less.pausedTime(20), 4);
});

test("g3: a pause within a break is credited afterwards", () => {
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP);
  assert.equal(thread.disconnect(10), false, "nobody waits for the resume of a running thread");
  assert.equal(thread.pausedTime(25), 0);
  assert.equal(thread.apply(25, 3n, false, 9, GAP), true, "waiters look again");
  assert.equal(thread.pausedTime(30), 9);
});

test("g3: a pause that ended within a break is credited to its end only", () => {
  const thread = new Thread();
  thread.apply(0, 1n, true, 0, GAP);
  assert.equal(thread.disconnect(10), true, "those who wait for the resume must now see to themselves");
  assert.equal(thread.pausedTime(25), 25);
  assert.equal(thread.apply(25, 2n, false, 12, GAP), true);
  assert.deepEqual([thread.pausedTime(25), thread.pausedTime(40)], [12, 12]);
});

test("g2: cut off, a pause counts for the grace only", () => {
  const thread = new Thread();
  thread.apply(0, 1n, true, 0, GAP);
  thread.disconnect(10);
  assert.deepEqual([thread.paused(39), thread.paused(40), thread.pausedTime(100)], [true, false, 40]);
  // The pause was real: all of it is credited.
  thread.apply(100, 1n, true, 100, GAP);
  assert.deepEqual([thread.paused(100), thread.pausedTime(101)], [true, 101]);
});

test("g3: a snapshot that an answer has overtaken changes nothing", () => {
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP);
  thread.disconnect(10);
  assert.equal(thread.apply(20, 3n, false, 4, ask(1n)), true);
  // Its stream was opened before the answer was given.
  assert.equal(thread.apply(25, 2n, true, 3, GAP), true, "the link is up again: waiters look again");
  assert.deepEqual([thread.pausedTime(26), thread.paused(26), thread.tracker.validUntil], [4, false, undefined]);
  thread.apply(27, 3n, false, 4, WATCH);
  assert.deepEqual([thread.pausedTime(30), thread.paused(30)], [4, false]);
});

test("g3: the first snapshot may be overtaken too, and who joined has a place", () => {
  const thread = new Thread();
  thread.apply(1, 2n, true, 0, ask(undefined));
  const { joined } = thread.tracker.join(3_000);
  thread.apply(5, 1n, false, 0, GAP);
  assert.deepEqual([thread.pausedTime(5), thread.paused(5)], [4, true], "the pause goes on");
  assert.deepEqual(joined.place, { at: 5_000, pausedTime: 4_000 });
});

test("g3: of two views of one pause the older changes nothing", () => {
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP);
  thread.apply(10, 2n, true, 6, WATCH);
  thread.apply(11, 2n, true, 3, ask(1n));
  assert.deepEqual([thread.pausedTime(12), thread.paused(12)], [8, true], "the answer was on its way for long");
  thread.disconnect(12);
  thread.apply(14, 2n, true, 10, ask(2n));
  thread.apply(15, 2n, true, 8, GAP);
  assert.deepEqual([thread.pausedTime(15), thread.tracker.validUntil], [11, undefined], "so was the snapshot");
  thread.apply(16, 3n, false, 12, WATCH);
  assert.equal(thread.pausedTime(20), 12);
});

test("a revision below what the watch has told means lost state, whatever was asked for", () => {
  const thread = new Thread();
  thread.apply(0, 7n, false, 0, GAP);
  thread.disconnect(10);
  thread.apply(12, 9n, false, 2, ask(7n));
  thread.apply(20, 1n, true, 0, GAP);
  assert.deepEqual([thread.pausedTime(23), thread.paused(23)], [5, true], "what was credited stays, and counts on");
});

test("g2: an answer while the watch is cut counts for one more grace", () => {
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP);
  thread.disconnect(10);
  thread.apply(20, 2n, true, 5, ask(1n));
  assert.deepEqual([thread.paused(49), thread.paused(50), thread.pausedTime(60)], [true, false, 35]);
});

test("a server that lost its state takes no paused time back", () => {
  const thread = new Thread();
  thread.apply(0, 7n, true, 50, GAP);
  thread.apply(10, 8n, false, 60, WATCH);
  thread.disconnect(10);
  thread.apply(20, 1n, true, 3, GAP);
  assert.deepEqual(
    [thread.pausedTime(20), thread.pausedTime(25)],
    [13, 18],
    "10 s before the loss, 3 s since, 5 s more",
  );
  // The total is higher by chance; the revision tells.
  thread.apply(30, 0n, true, 13, GAP);
  assert.equal(thread.pausedTime(30), 23);
});

test("states that are overtaken are ignored, and lost state is not", () => {
  const thread = new Thread();
  thread.apply(0, 5n, false, 0, GAP);
  thread.apply(1, 7n, true, 0, ask(5n));
  thread.apply(1, 6n, false, 0, WATCH);
  assert.equal(thread.paused(1), true, "revision 6 was on its way when 7 was asked for");
  thread.apply(2, 6n, false, 0, ask(5n));
  assert.equal(thread.paused(2), true, "so was this answer");
  thread.apply(2, 6n, false, 0, ask(undefined));
  assert.equal(thread.paused(2), true, "and one that was asked for before anything was known");
  thread.apply(3, 1n, false, 0, ask(7n));
  assert.equal(thread.paused(3), false, "an answer below what was known before the question is of another life");
});

test("g3: a sleep of the machine within a pause pays for nothing", () => {
  const hour = 3_600;
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP, 7);
  thread.apply(600, 2n, true, 0, WATCH, 7);
  thread.apply(640, 3n, false, hour + 10, GAP, 7 + hour);
  assert.equal(thread.pausedTime(640), 10, "of 40 s awake, 10 s were paused");
  // Fell asleep running: no more than the time awake.
  thread.apply(660, 5n, false, 2 * hour, GAP, 7 + 2 * hour);
  assert.equal(thread.pausedTime(660), 30);
});

test("g3: a state that a sleep of the machine overtook is credited whole", () => {
  const hour = 3_600;
  const thread = new Thread();
  thread.apply(0, 1n, true, 0, GAP, 7);
  thread.apply(22, 2n, true, 20, WATCH, 7 + hour);
  assert.equal(thread.pausedTime(22), 20, "sent at 20; the machine slept for an hour at 21");
  thread.apply(30, 3n, false, hour + 30, WATCH, 7 + hour);
  assert.equal(thread.pausedTime(40), 30);
  thread.apply(50, 4n, true, hour + 30, WATCH, 7 + hour);
  thread.apply(60, 5n, false, hour + 39, WATCH, 107 + hour);
  assert.equal(thread.pausedTime(60), 39, "resumed, then the sleep, then the news of it");
  thread.apply(70, 6n, true, hour + 39, WATCH, 207 + hour);
  thread.apply(80, 7n, false, hour + 49, WATCH, 207 + hour);
  assert.equal(thread.pausedTime(80), 49, "a sleep while it ran is none of the next pause");
  thread.apply(90, 8n, true, hour + 49, WATCH, 307 + hour);
  thread.apply(100, 9n, true, hour + 109, WATCH, 357 + hour);
  thread.apply(105, 10n, false, hour + 114, WATCH, 357 + hour);
  assert.equal(thread.pausedTime(105), 64, "two of them, the second of which is in the pause");
});

test("who joins gets its place with the next state", () => {
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP);
  thread.disconnect(10);
  const { pausedTime, joined } = thread.tracker.join(15_000);
  assert.deepEqual([pausedTime, joined.place], [0, undefined]);
  thread.apply(20, 3n, false, 10, GAP);
  assert.deepEqual(joined.place, { at: 20_000, pausedTime: 10_000 });
  assert.equal(thread.tracker.join(21_000).joined.place, undefined, "who joins later waits for a state of its own");
});

test("g3: a lost total that is exceeded meanwhile is credited in full", () => {
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP);
  thread.apply(10, 2n, true, 0, WATCH);
  thread.apply(12, 3n, false, 2, WATCH);
  thread.disconnect(20);
  // Lost 2 s; a pause began 4 s ago, so that the total exceeds the lost one.
  thread.epoch = 2n;
  thread.apply(25, 900n, true, 4, GAP);
  assert.deepEqual([thread.pausedTime(25), thread.pausedTime(33)], [6, 14]);
  thread.apply(34, 901n, false, 13, WATCH);
  assert.equal(thread.pausedTime(40), 15);
});

test("g3: a pause on both sides of a loss is credited beyond the grace", () => {
  const thread = new Thread();
  thread.apply(0, 1n, false, 0, GAP);
  thread.apply(10, 2n, true, 0, WATCH);
  thread.disconnect(20);
  thread.epoch = 2n;
  // Paused for 10 s until the disconnect, again since 25.
  thread.apply(100, 900n, true, 75, GAP);
  assert.deepEqual([thread.pausedTime(100), thread.pausedTime(101)], [85, 86]);
});

test("a pause that a loss ended keeps what was assumed", () => {
  const thread = new Thread();
  thread.apply(0, 1n, true, 0, GAP);
  thread.disconnect(10);
  thread.epoch = 2n;
  assert.ok(thread.apply(15, 900n, false, 0, GAP), "waiters for the resume look again");
  assert.deepEqual([thread.pausedTime(15), thread.pausedTime(30)], [15, 15]);
});

test("an epoch that was left does not come back by late states", () => {
  const thread = new Thread();
  thread.apply(0, 7n, true, 0, GAP);
  thread.epoch = 2n;
  thread.apply(4, 900n, false, 0, ask(7n));
  assert.deepEqual([thread.pausedTime(9), thread.paused(9)], [4, false]);
  thread.epoch = EPOCH;
  thread.apply(5, 8n, true, 5, WATCH);
  assert.ok(!thread.paused(5), "this state was on its way when the answer came");
  thread.apply(5, 8n, true, 5, ask(7n));
  assert.ok(!thread.paused(5), "this answer was on its way too");
  thread.epoch = 3n;
  thread.apply(6, 1_000n, true, 0, ask(7n));
  assert.ok(thread.paused(6), "the server lost its state twice while this question was open");
  // The operator went back to the first store, and the watch says so.
  thread.epoch = EPOCH;
  thread.disconnect(8);
  thread.apply(9, 8n, false, 5, GAP);
  assert.deepEqual([thread.paused(9), thread.pausedTime(12)], [false, 7]);
});

test("revisions are bounds within their epoch only", () => {
  const thread = new Thread();
  thread.apply(0, 900n, false, 0, GAP);
  thread.disconnect(1);
  thread.epoch = 2n;
  thread.apply(2, 7n, true, 0, ask(900n));
  // Its stream was opened before the answer; that its revision is lower says nothing.
  thread.apply(3, 6n, false, 0, GAP);
  assert.ok(thread.paused(3), "the snapshot is older than the answer");
  thread.apply(4, 8n, false, 2, WATCH);
  assert.equal(thread.pausedTime(9), 2);
});

test("states without an epoch are compared by total and revision", () => {
  const thread = new Thread();
  thread.epoch = 0n;
  thread.apply(0, 5n, false, 0, GAP);
  thread.apply(5, 6n, true, 0, WATCH);
  thread.disconnect(6);
  // The server was upgraded, and kept its store.
  thread.epoch = 2n;
  thread.apply(10, 7n, false, 3, GAP);
  assert.equal(thread.pausedTime(20), 3);
});

test("g2: a link that died in silence was lost with its last message", () => {
  const thread = new Thread();
  thread.apply(0, 1n, true, 0, GAP);
  assert.ok(thread.tracker.disconnect(40_000, 5_000), "waiters for the resume look again");
  assert.deepEqual([thread.paused(40), thread.pausedTime(50)], [false, 35], "the grace is over");
  // An answer after the last message confirmed the pause.
  const asked = new Thread();
  asked.apply(0, 1n, true, 0, GAP);
  asked.apply(20, 1n, true, 20, ask(1n));
  asked.tracker.disconnect(40_000, 5_000);
  assert.deepEqual([asked.paused(49), asked.pausedTime(60)], [true, 50]);
});

test("g1: a pause counts until the last join before the link was known to be dead", () => {
  const thread = new Thread();
  thread.apply(0, 1n, true, 0, GAP);
  assert.equal(thread.tracker.join(38_000).pausedTime, 38_000);
  thread.tracker.disconnect(40_000, 5_000);
  assert.deepEqual(
    [thread.paused(38), thread.pausedTime(50)],
    [false, 38],
    "else time before the join would be charged",
  );
  thread.tracker.join(45_000);
  assert.equal(thread.pausedTime(50), 38);
});
