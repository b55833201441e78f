import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, DeadlineExceededError, UnauthenticatedError } from "pausewatch";
import { settingsOf, withEnvironment } from "../../src/settings.js";
import { renewalDelayMs, tokenFile } from "../../src/token.js";
import { Requests } from "../../src/watch/requests.js";

function jsonWebToken(claims: unknown): string {
  return `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`;
}

test("a token is renewed after two thirds of its remaining lifetime, and at least once a minute", () => {
  const cases: [string, number][] = [
    [jsonWebToken({ exp: 1_030 }), 20],
    [jsonWebToken({ exp: 1_000_000 }), 60],
    [jsonWebToken({ exp: 1 }), 1],
    [jsonWebToken({ exp: "soon" }), 60],
    [jsonWebToken([]), 60],
    ["opaque", 60],
    ["e30.+.c2ln", 60],
  ];
  for (const [token, seconds] of cases) assert.equal(renewalDelayMs(token, 1_000_000), seconds * 1_000, token);
});

test("a source that fails, or has no token, is unauthenticated", async () => {
  const failing = () => Promise.reject(new Error("no such vault"));
  for (const token of [failing, () => "", () => "two words"]) {
    using client = new Client({ address: "127.0.0.1:1", token });
    await assert.rejects(client.getPauseState({ threadId: "t" }), (error) => {
      assert.ok(error instanceof UnauthenticatedError, `${error}`);
      assert.match(error.message, /^no token: /);
      return true;
    });
  }
  assert.throws(() => settingsOf({ address: "example.com:1", token: () => "t" }), { name: "ConfigError" });
});

test("a token file that does not answer leaves the threads of Node to others", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "pausewatch-token-")), "pipe");
  execFileSync("mkfifo", [path]);
  const source = tokenFile(path);
  const tokens = Array.from({ length: 8 }, source);
  // Node has four of them.
  assert.ok((await readFile(process.execPath)).length > 0);
  writeFileSync(path, "t\n");
  assert.deepEqual(await Promise.all(tokens), Array(8).fill("t"));
});

test("a call with a source that does not answer ends with its deadline, its signal and its client", async () => {
  const client = new Client({ address: "127.0.0.1:1", token: () => new Promise<string>(() => undefined) });
  const read = (options: object) => client.getPauseState({ threadId: "t" }, { deadlineMs: 3_000, ...options });
  await assert.rejects(read({ deadlineMs: 50 }), DeadlineExceededError);
  const controller = new AbortController();
  const aborted = read({ signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(aborted, { message: "enough" });
  const closed = read({});
  client.close();
  await assert.rejects(closed, /closed/);
});

test("a token file is read each time, and belongs to its layer", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "pausewatch-")), "token");
  const environment = { PAUSEWATCH_TOKEN_FILE: path, PAUSEWATCH_CONFIG: "/dev/null" };
  const { token } = withEnvironment({}, undefined, environment);
  assert.ok(typeof token === "function");
  for (const text of ["first", "second\n"]) {
    writeFileSync(path, text);
    assert.equal(await token(), text.trim());
  }
  assert.equal(withEnvironment({ token: "over" }, undefined, environment).token, "over");
  assert.throws(() => withEnvironment({}, undefined, { ...environment, PAUSEWATCH_TOKEN: "t" }), /set one of them/);
});

test("a new token has a request of its own before all others, and is not sent again after a refusal", () => {
  const requests = new Requests();
  requests.restart(["a"]);
  assert.deepEqual(requests.next(0)?.add, ["a"]);
  requests.onAnswer();
  requests.add("b");
  requests.renew("second");
  assert.deepEqual(requests.next(0), { add: [], remove: [], confirm: [], token: "second" });
  assert.deepEqual(requests.onRefusal([], 1_000), []);
  assert.deepEqual(requests.next(0)?.add, ["b"], "it waits for nothing");
});
