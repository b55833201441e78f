/** The coordinator for the tests of users. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client, PausewatchError, UnavailableError } from "../../src/index.js";
import { TestCoordinator } from "../../src/testing.js";
import { identity } from "../support/certificates.js";

test("it serves while its block lives, and comes back at the same address", async () => {
  let nobody: Client;
  {
    await using coordinator = await TestCoordinator.start({ options: ["--max-pause", "1h"] });
    using client = coordinator.client();
    nobody = coordinator.client({ retries: 0 });
    const { address } = coordinator;
    assert.equal(await client.withHold("t", {}, ({ opened }) => opened.count), 1);
    await client.incrementElicitation({ threadId: "t" });
    await assert.rejects(coordinator.start(), /is running/);
    await coordinator.stop();
    await coordinator.stop();
    await coordinator.start();
    assert.equal(coordinator.address, address);
    assert.equal((await client.getPauseState({ threadId: "t" })).count, 0);
  }
  await assert.rejects(nobody.getPauseState({ threadId: "t" }), UnavailableError);
  nobody.close();
});

test("it comes back at the same address with TLS", async () => {
  const directory = mkdtempSync(join(tmpdir(), "pausewatch-testing-"));
  after(() => rmSync(directory, { recursive: true }));
  const write = (name: string, pem: string) => {
    writeFileSync(join(directory, name), pem);
    return join(directory, name);
  };
  const authority = identity("authority");
  const server = identity("server", authority);
  const files = ["--tls-cert", write("server.pem", server.certPem), "--tls-key", write("server.key", server.keyPem)];
  await using coordinator = await TestCoordinator.start({ options: files });
  const { address } = coordinator;
  await coordinator.stop();
  await coordinator.start();
  assert.equal(coordinator.address, address);
  using client = coordinator.client({ tls: { ca: authority.certPem } });
  assert.equal((await client.getPauseState({ threadId: "t" })).count, 0);
});

test("a failed start reports the cause", async () => {
  await assert.rejects(TestCoordinator.start({ options: ["--no-such-option"] }), (error) => {
    assert.ok(error instanceof PausewatchError && error.message.includes("--no-such-option"), String(error));
    return true;
  });
  await assert.rejects(TestCoordinator.start({ program: "/nowhere/pausewatch" }), /PAUSEWATCH_PROGRAM/);
});

test("it neither keeps the process alive nor outlives it", async () => {
  const library = fileURLToPath(new URL("../../src/testing.js", import.meta.url));
  const program = `import { TestCoordinator } from ${JSON.stringify(library)};
    console.log((await TestCoordinator.start()).address);`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let address = "";
  child.stdout.on("data", (data) => {
    address += data;
  });
  assert.deepEqual(await once(child, "close"), [0, null]);
  using client = new Client({ address: address.trim(), retries: 0 });
  await assert.rejects(client.getPauseState({ threadId: "t" }), UnavailableError);
});
