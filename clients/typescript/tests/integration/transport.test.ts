/** Transports of one's own, what is around them, and PEM that is in no file. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Context, context, propagation, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  Client,
  ConfigError,
  type Link,
  traceContext,
  UnauthenticatedError,
  UnavailableError,
} from "../../src/index.js";
import { identity } from "../support/certificates.js";
import { Coordinator, until } from "../support/coordinator.js";
import { event, FakeCoordinator, type Handlers, silence } from "../support/fake.js";

/** Answers reads and watches, and keeps a header of each call. */
async function keeping(header: string) {
  const kept: (string | null)[] = [];
  const handlers: Handlers = {
    getPauseState: ({ threadId }, { requestHeader }) => {
      kept.push(requestHeader.get(header));
      return { pauseState: { threadId } };
    },
    watch: async function* (_, { requestHeader }) {
      kept.push(requestHeader.get(header));
      yield event.state({ threadId: "t" });
      yield event.snapshotComplete();
      await silence;
    },
  };
  return { kept, fake: await FakeCoordinator.start(handlers) };
}

test("interceptors wrap calls and streams, the first outermost", async () => {
  const { kept, fake } = await keeping("x-mark");
  await using _ = fake;
  const mark =
    (text: string): Interceptor =>
    (next) =>
    (request) => {
      request.header.append("x-mark", text);
      return next(request);
    };
  using client = new Client({ address: fake.address, interceptors: [mark("a"), mark("b")], token: "secret" });
  await client.getPauseState({ threadId: "t" });
  using timeout = client.startTimeout(60_000, { threadId: "t" });
  await until(() => timeout.linked);
  assert.deepEqual(kept, ["a, b", "a, b"]);
});

test("an interceptor that throws ends the call with its own error at once, and does not move the client", async () => {
  const thrown = [new TypeError("its own"), new ConnectError("its own", Code.Unavailable), "its own"];
  for (const own of thrown) {
    let calls = 0;
    const failing: Interceptor = () => async () => {
      calls++;
      throw own;
    };
    using client = new Client({ address: "127.0.0.1:1,127.0.0.1:2", interceptors: [(next) => next, failing] });
    const error = await client.getPauseState({ threadId: "t" }).catch((reason: unknown) => reason);
    assert.equal(error, own);
    assert.equal(calls, 1);
  }
});

test("an error that interceptors pass on is that of the transport", async () => {
  let calls = 0;
  const counting: Interceptor = (next) => (request) => {
    calls++;
    return next(request);
  };
  using client = new Client({ address: "127.0.0.1:1", interceptors: [counting], retries: 1 });
  await assert.rejects(client.getPauseState({ threadId: "t" }), UnavailableError);
  assert.equal(calls, 2);
});

test("a stream that an interceptor refuses is opened again at the same address", async () => {
  const [one, other] = [await keeping("x-mark"), await keeping("x-mark")];
  await using _one = one.fake;
  await using _other = other.fake;
  const replicas = [one, other];
  let failures = 0;
  let fails = false;
  const failing: Interceptor = (next) => (request) => {
    if (fails && failures++ < 3) throw new Error("its own");
    return next(request);
  };
  const links: Link[] = [];
  using client = new Client({
    address: replicas.map(({ fake }) => fake.address).join(","),
    interceptors: [failing],
    onLink: (link) => links.push(link),
  });
  await client.getPauseState({ threadId: "t" });
  const calls = replicas.map(({ kept }) => kept.length);
  fails = true;
  using timeout = client.startTimeout(60_000, { threadId: "t" });
  await until(() => timeout.linked);
  assert.deepEqual(
    replicas.map(({ kept }) => kept.length),
    calls.map((each) => each * 2),
  );
  assert.deepEqual(
    links.map((link) => (link.state === "connected" ? link.state : link.error.message)),
    ["an interceptor failed: its own", "connected"],
  );
});

test("a slow token source delays calls and streams and moves no client", async () => {
  const [one, other] = [await keeping("authorization"), await keeping("authorization")];
  await using _one = one.fake;
  await using _other = other.fake;
  let calls = 0;
  const source = async () => {
    calls++;
    await sleep(2_000);
    return "slow";
  };
  const links: Link[] = [];
  const address = `${one.fake.address},${other.fake.address}`;
  using client = new Client({ address, token: source, onLink: (link) => links.push(link) });
  await client.getPauseState({ threadId: "t" });
  using timeout = client.startTimeout(60_000, { threadId: "t" });
  await until(() => timeout.linked);
  assert.deepEqual([one.kept, other.kept].map((kept) => kept.join()).sort(), ["", "Bearer slow,Bearer slow"]);
  assert.equal(calls, 2);
  assert.deepEqual(links, [{ state: "connected" }]);
});

test("a watch without a token in time names the token source", async () => {
  const { kept, fake } = await keeping("authorization");
  await using _ = fake;
  const source = () => new Promise<string>(() => undefined);
  const links: Link[] = [];
  using client = new Client({
    address: fake.address,
    token: source,
    deadlineMs: 100,
    onLink: (link) => links.push(link),
  });
  using _timeout = client.startTimeout(60_000, { threadId: "t" });
  await until(() => links.length === 1);
  const [lost] = links;
  assert.ok(lost?.state === "disconnected");
  assert.equal(lost.error.message, "the token source gave no token within 100 ms");
  assert.deepEqual(kept, []);
});

test("a problem of a token source is logged once until the source works again", async () => {
  const { fake } = await keeping("authorization");
  await using _ = fake;
  const warnings: string[] = [];
  let failures = 0;
  let fails = false;
  const source = () => {
    if (fails && failures++ >= 0) throw new Error("no such vault");
    // Expired long ago, so the stream asks for another one each second.
    return `e30.${Buffer.from(JSON.stringify({ exp: 1 })).toString("base64url")}.c2ln`;
  };
  const logger = { info: () => undefined, warn: (text: string) => void warnings.push(text) };
  using client = new Client({ address: fake.address, token: source, logger });
  using first = client.startTimeout(60_000, { threadId: "t" });
  using second = client.startTimeout(60_000, { threadId: "t", disconnectGraceMs: 10_000 });
  await until(() => first.linked && second.linked);
  fails = true;
  await until(() => failures >= 4);
  assert.deepEqual(warnings, ["pausewatch: no token: no such vault"]);
});

test("an own transport is used, with the token, and not closed", async () => {
  const { kept, fake } = await keeping("authorization");
  await using _ = fake;
  const transport = createGrpcTransport({ baseUrl: `http://${fake.address}` });
  for (const token of ["secret", () => "other", undefined]) {
    using client = new Client({ transport, token });
    await client.getPauseState({ threadId: "t" });
    if (token === undefined) continue;
    using timeout = client.startTimeout(60_000, { threadId: "t" });
    await until(() => timeout.linked);
  }
  assert.deepEqual(kept, ["Bearer secret", "Bearer secret", "Bearer other", "Bearer other", null]);
  using without = new Client({ transport, token: () => Promise.reject(new Error("none left")) });
  await assert.rejects(without.getPauseState({ threadId: "t" }), UnauthenticatedError);
  assert.throws(() => new Client({ transport, interceptors: [(next) => next] }), ConfigError);
});

test("a hold works over an own transport", async () => {
  await using coordinator = await Coordinator.start();
  using client = new Client({ transport: createGrpcTransport({ baseUrl: `http://${coordinator.address}` }) });
  assert.equal(await client.withHold("t", {}, ({ opened }) => opened.count), 1);
});

test("traceContext sends the context of the active span", async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const { kept, fake } = await keeping("traceparent");
  await using _ = fake;
  using client = new Client({ address: fake.address, interceptors: [traceContext({ context, propagation })] });
  const of = (digit: string): Context =>
    trace.setSpanContext(ROOT_CONTEXT, { traceId: digit.repeat(32), spanId: digit.repeat(16), traceFlags: 1 });
  const calls = ["1", "2"].map((digit) => context.with(of(digit), () => client.getPauseState({ threadId: "t" })));
  await Promise.all([...calls, client.getPauseState({ threadId: "t" })]);
  const expected = ["1", "2"].map((digit) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`);
  assert.deepEqual(kept.map(String).sort(), [...expected, "null"].sort());
});

test("certificates need no files", async () => {
  const authority = identity("authority");
  const [server, program] = [identity("server", authority), identity("program", authority)];
  const ca = authority.certPem;
  const tls = { cert: server.certPem, key: server.keyPem, ca, requestCert: true, rejectUnauthorized: true };
  const handlers: Handlers = { getPauseState: ({ threadId }) => ({ pauseState: { threadId } }) };
  await using fake = await FakeCoordinator.start(handlers, tls);
  const own = { ca, cert: program.certPem, key: program.keyPem };
  const environment = { PAUSEWATCH_TLS_CA: "/nowhere/ca.pem" };
  using client = Client.fromEnv({ address: `https://localhost:${fake.port}`, tls: own, environment });
  assert.equal((await client.getPauseState({ threadId: "t" })).threadId, "t");
  assert.throws(() => new Client({ tls: own }), /https:/);
  assert.throws(() => new Client({ address: "https://localhost:1", tls: own, tlsCa: "/nowhere.pem" }), ConfigError);
  assert.throws(
    () => new Client({ address: "https://localhost:1", tls: { ca: "x", key: "s3cret" } }),
    (error) => {
      assert.ok(error instanceof ConfigError && !error.message.includes("s3cret"));
      return true;
    },
  );
});
