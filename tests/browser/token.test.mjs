// A coordinator with tokens.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, until, Watched } from "./browser.mjs";
import { Coordinator } from "./coordinator.mjs";

const secret = (role) => `${role}-0123456789abcdef0123456789abcdef`;
let browser;
let coordinator;
let directory;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), "pausewatch-browser-tokens-"));
  const scopes = { watcher: 'prefixes = [""]', holder: 'prefixes = ["team/"]', admin: "" };
  const tokens = Object.entries(scopes).map(([role, scope]) => `[[token]]\nsubject = "${role}"\nrole = "${role}"\nsecret = "${secret(role)}"\n${scope}\n`);
  writeFileSync(join(directory, "tokens.toml"), tokens.join("\n"), { mode: 0o600 });
  [browser, coordinator] = await Promise.all([launch(), Coordinator.start(["--store", "memory", "--tokens", join(directory, "tokens.toml")])]);
  for (const threadId of ["team/1", "other/1"]) {
    const { status } = await coordinator.call("IncrementElicitation", { threadId, reason: "Go on?" }, { authorization: `Bearer ${secret("admin")}` });
    assert.equal(status, 200);
  }
});
after(async () => {
  await browser?.close();
  await coordinator?.stop();
  rmSync(directory, { recursive: true, force: true });
});

async function enter(shown, token) {
  await shown.page.waitForSelector("#login:not([hidden])");
  await shown.page.locator("#token").fill(token);
  await shown.page.keyboard.press("Enter");
}

/** In a new browser context, which has no state of other tests. */
async function open() {
  const context = await browser.createBrowserContext();
  return Watched.open(context, coordinator.url);
}

test("a token is asked for, kept for this tab, and never in the address or in a cookie", async () => {
  const shown = await open();
  await shown.page.waitForSelector("#login:not([hidden])");
  assert.equal(await shown.text("#denied"), "", "nothing was wrong yet");
  assert.equal(await shown.page.evaluate(() => document.activeElement.id), "token");
  assert.equal(await shown.page.$eval("#content", (content) => content.hidden), true);
  // The second one has a character that is not allowed in a header.
  for (const wrong of ["wrong-wrong-wrong-wrong", `${secret("watcher")}…`]) {
    await enter(shown, wrong);
    await until("what is wrong", async () => /token/.test(await shown.text("#denied")));
    await shown.page.reload();
  }
  await enter(shown, secret("watcher"));
  await shown.live();
  await shown.row("team/1");
  const kept = async () => [shown.page.url(), (await shown.page.cookies()).length, await shown.page.evaluate(() => localStorage.length)];
  assert.deepEqual(await kept(), [coordinator.url, 0, 0]);
  await shown.page.reload();
  await shown.live();
  assert.deepEqual(await kept(), [coordinator.url, 0, 0]);
  // The other tab must get the token too.
  const other = await Watched.open(shown.page.browserContext(), coordinator.url);
  await other.page.waitForSelector("#login:not([hidden])");
  await other.page.close();
  await shown.page.bringToFront();
  await shown.page.click("#forget");
  await shown.page.waitForSelector("#login:not([hidden])");
  assert.equal(await shown.page.evaluate(() => sessionStorage.length), 0);
  assert.equal((await shown.rows()).length, 0, "nothing is left to read");
  await shown.page.close();
  assert.deepEqual(shown.complaints, []);
});

for (const [role, threads, mayRelease] of [["watcher", 2, false], ["holder", 1, true], ["admin", 2, true]]) {
  test(`a role sees ${threads} threads and ${mayRelease ? "may" : "may not"} release: ${role}`, async () => {
    const shown = await open();
    await enter(shown, secret(role));
    await shown.live();
    await shown.row("team/1");
    assert.equal((await shown.rows()).length, threads);
    const refused = 'pausewatch_calls_total{rpc="DecrementElicitation",code="PERMISSION_DENIED"}';
    const listed = 'pausewatch_calls_total{rpc="ListPauseStates",code="OK"}';
    if (mayRelease) {
      await shown.page.waitForSelector(".asks button:not([hidden])");
      assert.equal((await shown.page.$$(".asks button:not([hidden])")).length, threads);
      assert.equal(await shown.text("#role"), "");
    } else {
      await until("what the role may", async () => /may not release/.test(await shown.text("#role")));
      assert.equal((await shown.page.$$(".asks button:not([hidden])")).length, 0);
      // Refused calls would count in the metrics, as those of somebody who guesses tokens.
      const lists = await coordinator.metric(listed);
      await until("what the page asks for", async () => (await coordinator.metric(listed)) > lists + 1);
      assert.ok(!((await coordinator.metric(refused)) > 0), "the page asks only for what its role may");
    }
    await shown.page.close();
    assert.deepEqual(shown.complaints, []);
  });
}
