import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { createServer } from "node:tls";
import { inspect } from "node:util";
import { Client, type ClientOptions } from "../../src/index.js";
import { identity } from "../support/certificates.js";
import { FakeCoordinator, type Handlers } from "../support/fake.js";

const directory = mkdtempSync(join(tmpdir(), "pausewatch-tls-"));
after(() => rmSync(directory, { recursive: true }));

const authority = identity("authority");
const server = identity("server", authority);
const program = identity("program", authority);
const stranger = identity("stranger");

function file(name: string, contents: string): string {
  const path = join(directory, name);
  writeFileSync(path, contents);
  return path;
}

const tlsCa = file("ca.pem", authority.certPem);
const OWN = { tlsCert: file("program.pem", program.certPem), tlsKey: file("program.key", program.keyPem) };

/** What the last call was authorized by. */
let seen: string | null = null;
const HANDLERS: Handlers = {
  getPauseState: (_, { requestHeader }) => {
    seen = requestHeader.get("authorization");
    return { pauseState: {} };
  },
};

async function call(options: ClientOptions): Promise<void> {
  using client = new Client({ retries: 1, ...options });
  await client.getPauseState({ threadId: "t" });
}

test("TLS by name and by IP address, with a token on every call", async () => {
  await using fake = await FakeCoordinator.start(HANDLERS, { key: server.keyPem, cert: server.certPem });
  for (const host of ["localhost", "127.0.0.1"]) {
    seen = null;
    await call({ address: `https://${host}:${fake.port}`, tlsCa, token: "s3cret" });
    assert.equal(seen, "Bearer s3cret");
  }
  await call({ address: `https://localhost:${fake.port}`, tlsCa });
  assert.equal(seen, null);
});

test("a token goes in plain text to this machine", async () => {
  await using fake = await FakeCoordinator.start(HANDLERS);
  await call({ address: fake.address, token: "s3cret" });
  assert.equal(seen, "Bearer s3cret");
});

test("a server whose authority is not trusted is not called", async () => {
  await using fake = await FakeCoordinator.start(HANDLERS, { key: server.keyPem, cert: server.certPem });
  seen = null;
  const address = `https://localhost:${fake.port}`;
  for (const trust of [{}, { tlsCa: file("other.pem", stranger.certPem) }]) {
    await assert.rejects(call({ address, token: "s3cret", ...trust }), (error: Error) => {
      assert.match(error.message, /connection lost: .*(certificate|issuer)/);
      return !inspect(error, { depth: 10 }).includes("s3cret");
    });
  }
  assert.equal(seen, null);
});

test("mutual TLS: the server requires the client certificate", async () => {
  const tls = { key: server.keyPem, cert: server.certPem, ca: authority.certPem, requestCert: true };
  await using fake = await FakeCoordinator.start(HANDLERS, { ...tls, rejectUnauthorized: true });
  const address = `https://localhost:${fake.port}`;
  await call({ address, tlsCa, ...OWN });
  await assert.rejects(call({ address, tlsCa }), { transient: true });
});

test("a server without TLS, or without HTTP/2 over TLS, is not called", async () => {
  await using plain = await FakeCoordinator.start(HANDLERS);
  await assert.rejects(call({ address: `https://localhost:${plain.port}`, tlsCa }), { transient: true });
  const old = createServer({ key: server.keyPem, cert: server.certPem }, (socket) =>
    socket.on("error", () => undefined),
  );
  old.listen(0, "127.0.0.1");
  await once(old, "listening");
  const address = `https://localhost:${(old.address() as AddressInfo).port}`;
  await assert.rejects(call({ address, tlsCa }), { message: /the server does not speak HTTP\/2/ });
  old.close();
});
