/** What the requests of a stream say. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Changes, Requests } from "../../src/watch/requests.js";

/** A request in short: `+a -b ?c`. */
function short(changes: Changes | undefined): string | undefined {
  if (changes === undefined) return undefined;
  const { add, remove, confirm } = changes;
  return [...add.map((id) => `+${id}`), ...remove.map((id) => `-${id}`), ...confirm.map((id) => `?${id}`)].join(" ");
}

function restarted(...threadIds: string[]): Requests {
  const requests = new Requests();
  requests.restart(threadIds);
  return requests;
}

test("one request at a time, and changes meanwhile are sent with the next one", () => {
  const requests = restarted("a", "b");
  assert.equal(short(requests.next(0)), "+a +b");
  requests.add("c");
  requests.add("d");
  requests.remove("d");
  requests.remove("a");
  assert.deepEqual([requests.next(0), requests.isComplete], [undefined, false]);
  requests.onAnswer();
  assert.equal(short(requests.next(0)), "+c -a");
  requests.onAnswer();
  assert.deepEqual([requests.next(0), requests.isComplete], [undefined, true]);
  assert.deepEqual([requests.watches("a"), requests.watches("c")], [false, true]);
});

test("at most 500 ids in one request", () => {
  const ids = Array.from({ length: 1_200 }, (_, i) => `${i}`);
  const requests = restarted(...ids);
  const sizes: number[] = [];
  for (let next = requests.next(0); next !== undefined; next = requests.next(0)) {
    sizes.push(next.add.length);
    requests.onAnswer();
  }
  assert.deepEqual(sizes, [500, 500, 200]);
  for (const id of ids.slice(0, 600)) requests.confirm(id, 0, 0);
  assert.deepEqual([requests.next(0)?.confirm.length, requests.next(0)], [500, undefined]);
  requests.onAnswer();
  assert.equal(requests.next(0)?.confirm.length, 100);
});

test("g1: a confirmation is sent first and alone, and one that was sent too early is sent again", () => {
  const requests = restarted("a", "b");
  requests.confirm("a", 10, 10);
  assert.equal(short(requests.next(11)), "?a");
  assert.equal(requests.sentAt("a"), 11);
  requests.confirm("a", 11, 12);
  assert.equal(requests.confirmingSince(12), 11);
  requests.onAnswer();
  assert.deepEqual([short(requests.next(13)), requests.confirmingSince(13)], ["+a +b", undefined]);
  requests.confirm("a", 14, 14);
  requests.onAnswer();
  assert.equal(short(requests.next(15)), "?a");
  requests.confirm("a", 16, 16);
  requests.confirm("b", 16, 16);
  requests.cancelConfirmation("b");
  requests.onAnswer();
  assert.equal(short(requests.next(17)), "?a", "nobody waits for the other one");
});

test("after a disconnect nothing is waited for if the confirmation was cancelled", () => {
  const requests = restarted("a");
  requests.next(0);
  requests.onAnswer();
  requests.confirm("a", 10, 10);
  assert.equal(short(requests.next(10)), "?a");
  requests.cancelConfirmation("a");
  assert.equal(requests.confirmingSince(11), 10, "its answer is still to come");
  requests.disconnected(true);
  assert.equal(requests.confirmingSince(12), undefined);
  requests.confirm("a", 13, 13);
  requests.disconnected(false);
  assert.equal(requests.confirmingSince(14), 13, "this one was not cancelled");
});

test("a refused request has done nothing, and is sent again when the limit allows", () => {
  const requests = restarted("a", "b", "c");
  requests.next(0);
  requests.remove("b");
  assert.deepEqual(requests.onRefusal([], 100), ["a", "c"]);
  assert.deepEqual([requests.watches("a"), requests.next(99), requests.delayMs(40)], [false, undefined, 60]);
  requests.confirm("a", 50, 50);
  assert.equal(short(requests.next(50)), "?a", "it does not delay a confirmation");
  requests.onRefusal([], 200);
  assert.deepEqual([requests.confirmingSince(60), requests.delayMs(60)], [undefined, 40]);
  assert.equal(short(requests.next(100)), "+a +c");
  requests.onAnswer();
  assert.equal(short(requests.next(200)), "?a");
});

test("a forbidden thread is excluded until the stream after one that has answered", () => {
  const requests = restarted("ours", "theirs");
  requests.next(0);
  assert.deepEqual(requests.onRefusal(["theirs"], 0), ["theirs"]);
  requests.confirm("theirs", 0, 0);
  assert.equal(short(requests.next(0)), "+ours");
  requests.disconnected(false);
  requests.restart(["ours", "theirs"]);
  assert.equal(short(requests.next(0)), "+ours");
  requests.disconnected(true);
  requests.restart(["ours", "theirs"]);
  assert.equal(short(requests.next(0)), "+ours +theirs");
});

test("a refused removal is sent again, unless the thread was added again", () => {
  const requests = restarted("a", "b");
  requests.next(0);
  requests.onAnswer();
  requests.remove("a");
  requests.remove("b");
  assert.equal(short(requests.next(0)), "-a -b");
  requests.add("b");
  requests.onRefusal([], 10);
  assert.equal(short(requests.next(10)), "+b -a");
});
