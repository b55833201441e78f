/** The paused time of a thread, as a stopwatch that joined it counts it, and what is charged with it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Follow } from "../../src/stopwatch/follows.js";
import { Meter } from "../../src/stopwatch/meter.js";
import type { Joined } from "../../src/stopwatch/paused-time.js";
import type { ThreadClock } from "../../src/stopwatch/thread.js";

/** A stopwatch with a limit of 10 that has joined at `now`, when the thread was assumed to stand at `pausedTime`. */
class Joining {
  readonly #joined: Joined = {};
  readonly #follow: Follow;
  readonly #meter: Meter;
  #pausedTime: number;

  constructor(now: number, pausedTime: number) {
    this.#pausedTime = pausedTime;
    const thread = {
      join: () => ({ pausedTime, joined: this.#joined }),
      pausedTime: () => this.#pausedTime,
    };
    this.#follow = new Follow(thread as unknown as ThreadClock, now);
    this.#meter = new Meter(10, now);
  }

  pause(now: number, pausedTime: number): void {
    this.#meter.pause(now, this.#use(now, pausedTime));
  }

  resume(now: number, pausedTime: number): void {
    this.#meter.resume(now, this.#use(now, pausedTime));
  }

  place(at: number, pausedTime: number): void {
    this.#joined.place = { at, pausedTime };
  }

  charged(now: number, pausedTime: number): number {
    this.#pausedTime = pausedTime;
    return this.#meter.charged(now, this.#follow.pausedTime(now));
  }

  #use(now: number, pausedTime: number): number {
    this.#pausedTime = pausedTime;
    this.#follow.settle(now);
    return this.#follow.pausedTime(now);
  }
}

test("g1: a place found late moves what is charged by no more than the time since", () => {
  // 2 since it joined; it was assumed to stand at 50 all the time.
  for (const [pausedTime, charged] of [
    [0, 2],
    [50, 2],
    [51, 1],
    [900, 0],
  ] as const) {
    const joining = new Joining(1, 50);
    joining.place(3, pausedTime);
    assert.equal(joining.charged(3, pausedTime), charged, `${pausedTime}`);
    assert.equal(joining.charged(5, pausedTime + 1), charged + 1, `${pausedTime}`);
  }
});

test("g3: a place found late counts from the beginning, whatever pauses of its own there were since", () => {
  // Its own pause from 5 to 6, and a place at 7.
  for (const [pausedTime, charged] of [
    [50, 6],
    [54, 2],
    [900, 0],
  ] as const) {
    const joining = new Joining(0, 50);
    joining.pause(5, 50);
    joining.resume(6, 50);
    joining.place(7, pausedTime);
    assert.equal(joining.charged(7, pausedTime), charged, `${pausedTime}`);
    assert.equal(joining.charged(8, pausedTime), charged + 1, `${pausedTime}`);
  }
});

test("a place found late charges nothing for a pause of its own, where the thread was assumed to be paused", () => {
  const joining = new Joining(0, 50);
  joining.pause(1, 51);
  joining.resume(6, 56);
  joining.place(8, 50);
  assert.equal(joining.charged(8, 50), 2);
});
