// The display and the functions of the page.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { launch, until, Watched } from "./browser.mjs";
import { Coordinator } from "./coordinator.mjs";

let browser;
let coordinator;
/** One page and one coordinator for all tests; no thread is paused at the start of a test. */
let shown;

before(async () => {
  [browser, coordinator] = await Promise.all([launch(), Coordinator.start(["--store", "memory"])]);
  shown = await Watched.open(browser, coordinator.url);
  await shown.live();
});
after(async () => {
  await browser?.close();
  await coordinator?.stop();
});
beforeEach(async () => {
  for (const thread of await coordinator.paused()) while ((await coordinator.call("DecrementElicitation", { threadId: thread })).answer.paused);
  await until("an empty page", async () => (await shown.rows()).length === 0);
});

test("shows who waits for what, since when, as it happens", async () => {
  assert.match(await shown.text("#nobody"), /Nobody is waiting/);
  await coordinator.increment("conversation-17", "ask[1]@laptop", "Delete the branch?", "--ttl", "30s");
  const row = await shown.row("conversation-17");
  for (const part of [/ask\[1\]@laptop asks/, /Delete the branch\?/, /since \d\d:\d\d/, /lease ends in [12]?\ds/]) assert.match(row, part);
  assert.equal(await shown.page.$eval("#nobody", (element) => element.hidden), true);
  assert.equal(await shown.page.title(), "(1) pausewatch");
  const waits = () => shown.text("#threads strong");
  const first = await waits();
  await until("a longer wait", async () => (await waits()) !== first);
  await coordinator.run("decrement", "--thread-id", "conversation-17");
  await shown.gone("conversation-17");
  assert.equal(await shown.page.title(), "pausewatch");
});

test("the longest wait is the first", async () => {
  for (const thread of ["c", "a", "b"]) await coordinator.increment(`thread-${thread}`, "ask", "Go on?");
  await shown.row("thread-b");
  const names = await shown.page.$$eval("#threads h3", (names) => names.map((name) => name.innerText));
  assert.deepEqual(names, ["thread-c", "thread-a", "thread-b"]);
});

test("the longest wait is the first, though the wall clock of the coordinator was set back", async () => {
  const state = (threadId, pauseStartTime, pausedFor) => ({ threadId, count: 1, paused: true, revision: "1", storeEpoch: "1", pauseStartTime, pausedFor, pausedTotal: pausedFor });
  const events = [
    { pauseState: state("newer", "2026-11-22T08:14:00Z", "5s") },
    { pauseState: state("older", "2026-11-22T08:15:00Z", "70s") },
    { snapshotComplete: {} },
  ];
  const messages = events.map((event) => {
    const json = Buffer.from(JSON.stringify(event));
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(json.length, 1);
    return Buffer.concat([prefix, json]);
  });
  const page = await browser.newPage();
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const isWatch = request.url().endsWith("/WatchPauseState");
    return isWatch ? request.respond({ contentType: "application/connect+json", body: Buffer.concat(messages) }) : request.continue();
  });
  await page.goto(coordinator.url);
  const names = () => page.$$eval("#threads h3", (names) => names.map((name) => name.innerText));
  await until("both", async () => (await names()).length === 2);
  assert.deepEqual(await names(), ["older", "newer"]);
  assert.match(await page.$eval("#longest", (longest) => longest.innerText), /^longest 1m/);
  await page.close();
});

test("says that no stream but those of observers watches a thread", async () => {
  await coordinator.increment("lonely", "ask", "Go on?");
  // Two watchers: this page, and one more.
  const observer = coordinator.begin("watch");
  let watcher;
  try {
    await until("both streams", async () => (await coordinator.metric("pausewatch_watchers")) === 2);
    await shown.row("lonely", (row) => /Watchers\s+nobody/.test(row));
    assert.match(await shown.text("#summary"), /watched by nobody/);
    watcher = coordinator.begin("watch", "--thread-id", "lonely");
    await shown.row("lonely", (row) => /Watchers\s+1/.test(row));
    assert.doesNotMatch(await shown.text("#summary"), /nobody/);
  } finally {
    observer.kill();
    watcher?.kill();
  }
});

test("a renewed lease is shown, though a renewal is no change", async () => {
  const id = await coordinator.increment("renewed", "ask", "Go on?", "--ttl", "50s");
  await shown.row("renewed", (row) => /lease ends in [45]\ds/.test(row));
  await coordinator.run("renew", "--thread-id", "renewed", id, "--ttl", "1h");
  await shown.row("renewed", (row) => /lease ends in 59m/.test(row));
});

test("text of strangers stays text", async () => {
  const markup = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
  await coordinator.increment("<b>bold</b>", '"><i>', markup);
  await coordinator.increment("\u202Egnp.exe", "\u2066", "x".repeat(1000));
  const row = await shown.row("<b>bold</b>");
  assert.ok(row.includes(markup) && row.includes('"><i> asks'), row);
  await shown.chooseRelease("<b>bold</b>");
  assert.ok((await shown.text("#release-what")).includes(markup));
  await shown.answer("keep");
  await coordinator.run("decrement", "--thread-id", "<b>bold</b>");
  await shown.gone("<b>bold</b>");
  await shown.page.locator("#ended summary").click();
  await until("it among the ended pauses", async () => (await shown.text("#ended-list")).includes(markup));
  await shown.page.locator("#ended summary").click();
  assert.equal((await shown.page.$$("main img, main script, main b, dialog img, p img")).length, 0);
  // Each text is isolated, so that its direction does not affect the others.
  const outside = await shown.page.evaluate(() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) => (/[<>\u202E\u2066]/.test(node.data) ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP));
    const found = [];
    while (walk.nextNode()) if (!walk.currentNode.parentElement.closest("bdi, script, noscript")) found.push(walk.currentNode.data);
    return found;
  });
  assert.deepEqual(outside, []);
});

test("filters by thread, holder and question", async () => {
  await coordinator.increment("conversation-17", "git@laptop", "Delete the branch?");
  await coordinator.increment("build-9", "deploy.sh@ci", "Deploy to production?");
  await shown.row("build-9");
  for (const [sought, found] of [["BRANCH", "conversation-17"], ["build", "build-9"], ["@ci", "build-9"]]) {
    await shown.page.locator("#filter").fill(sought);
    await until(`only ${found}`, async () => (await shown.rows()).length === 1);
    assert.match((await shown.rows())[0], new RegExp(found));
    assert.match(await shown.text("#summary"), /1 shown/);
  }
  await shown.page.locator("#filter").fill("");
  await until("both", async () => (await shown.rows()).length === 2);
});

test("releases when it is confirmed, and then only", async () => {
  await coordinator.increment("asked-once", "ask", "Delete the branch?");
  await shown.chooseRelease("asked-once");
  assert.match(await shown.text("dialog"), /Delete the branch\?[^]*asked-once[^]*may be killed/);
  await shown.answer("keep");
  await shown.chooseRelease("asked-once");
  await shown.page.keyboard.press("Escape");
  await shown.page.waitForSelector("dialog:not([open])");
  assert.deepEqual(await coordinator.paused(), ["asked-once"]);
  await shown.chooseRelease("asked-once");
  await shown.answer("release");
  await shown.gone("asked-once");
  assert.deepEqual(await coordinator.paused(), []);
  const lines = () => shown.page.$$eval("#bars > li", (lines) => lines.map((line) => [line.innerText, line.querySelectorAll("i.closed").length]));
  await until("it on the timeline", async () => (await lines()).some(([text, closed]) => /asked-once[^]*1 pause,/.test(text) && closed === 1));
});

test("releases exactly the question that was chosen", async () => {
  await coordinator.increment("two", "first", "First?");
  await coordinator.increment("two", "second", "Second?");
  await shown.row("Second?");
  await shown.page.evaluate(() => [...document.querySelectorAll(".asks > li")].find((ask) => ask.innerText.includes("Second?")).querySelector("button").click());
  await shown.page.waitForSelector("dialog[open]");
  assert.match(await shown.text("dialog"), /stays paused: 1 other question/);
  await shown.answer("release");
  await shown.gone("Second?");
  assert.match((await shown.rows())[0], /First\?/);
});

test("a question that is closed meanwhile cannot be released", async () => {
  await coordinator.increment("conversation-17", "ask", "Delete the branch?");
  await shown.chooseRelease("conversation-17");
  await coordinator.run("decrement", "--thread-id", "conversation-17");
  await shown.page.waitForFunction(() => document.getElementById("release-yes").disabled);
  assert.match(await shown.text("#release-risk"), /closed meanwhile/);
  await shown.answer("keep");
});

test("is connected again after kill -9, and shows the new state", async () => {
  await coordinator.increment("before", "ask", "Go on?");
  await shown.row("before");
  await coordinator.kill();
  await shown.link("lost");
  assert.match(await shown.text("#lost"), /No connection[^]*known at/);
  assert.equal((await shown.rows()).length, 1, "what was known stays");
  await coordinator.restart();
  await shown.live();
  await shown.gone("before");
  assert.equal(await shown.page.$eval("#lost", (element) => element.hidden), true);
  await coordinator.increment("after", "ask", "Go on?");
  await shown.row("after");
});

test("a durable store keeps its threads over kill -9, and the page shows them", async () => {
  const durable = await Coordinator.start();
  const page = await Watched.open(browser, durable.url);
  await page.live();
  await durable.increment("kept", "ask", "Go on?");
  await page.row("kept");
  await durable.kill();
  await page.link("lost");
  await durable.restart();
  await page.live();
  await page.row("kept");
  await page.page.close();
  await durable.stop();
  assert.deepEqual(page.complaints, []);
});

test("a hidden tab keeps no stream", async () => {
  const streams = (count) => until(`${count} streams`, async () => (await coordinator.metric("pausewatch_watchers")) === count);
  await streams(1);
  await shown.hide(true);
  await streams(0);
  await coordinator.increment("meanwhile", "ask", "Go on?");
  await shown.hide(false);
  await shown.row("meanwhile");
  await streams(1);
});

test("a call that is never answered does not stop the page from asking again", async () => {
  const page = await Watched.open(browser, coordinator.url);
  await page.live();
  let lists = 0;
  await page.page.setRequestInterception(true);
  page.page.on("request", (request) => (request.url().endsWith("/ListPauseStates") && lists++ === 0 ? undefined : request.continue()));
  await coordinator.increment("conversation-17", "ask", "Go on?");
  await until("a list", () => lists === 1);
  for (const isHidden of [true, false]) await page.hide(isHidden);
  await page.row("conversation-17", (row) => /Watchers\s+nobody/.test(row));
  await page.page.close();
});

test("thousands of threads are counted, and the longest are shown", async () => {
  const crowd = await Coordinator.start(["--store", "memory"]);
  for (let i = 0; i < 3000; i += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, j) => crowd.call("IncrementElicitation", { threadId: `thread-${i + j}`, holder: `holder-${i + j}` })));
  }
  const page = await Watched.open(browser, crowd.url);
  await page.live();
  await until("all", async () => (await page.text("#waiting")) === "3,000 threads waiting");
  assert.equal((await page.rows()).length, 200);
  assert.match(await page.text("#more"), /2,800 more threads/);
  await page.page.locator("#filter").fill("holder-2999");
  await page.row("thread-2999");
  await page.page.close();
  await crowd.stop();
  assert.deepEqual(page.complaints, []);
});

test("no violation of the content security policy in all of this", async () => assert.deepEqual(shown.complaints, []));

test("the policy is in force", async () => {
  const tried = await Watched.open(browser, coordinator.url);
  const refused = await tried.page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>x</b>";
      return "";
    } catch (error) {
      return error.message;
    }
  });
  assert.match(refused, /TrustedHTML/);
  await tried.page.evaluate(() => document.body.append(Object.assign(document.createElement("iframe"), { src: "data:text/html,x" })));
  await until("a complaint", () => tried.complaints.some((complaint) => /frame/.test(complaint)));
  await tried.page.close();
});
