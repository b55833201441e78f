import assert from "node:assert/strict";
import { once } from "node:events";
import * as http2 from "node:http2";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { Connection } from "../../src/connection.js";

test("a peer that answers no ping within 5 s is disconnected, and the next request reconnects", async (t) => {
  const accepted: Socket[] = [];
  const silent = createServer((socket) => accepted.push(socket.resume().on("error", () => undefined)));
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  t.after(() => {
    for (const socket of accepted) socket.destroy();
    silent.close();
  });

  t.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const connection = new Connection("http://localhost", () => connect(port, "127.0.0.1"));
  const request = () => connection.request(["POST", "/", {}, {}], true);
  const stream = request();
  const failed = once(stream, "error").catch((error) => error);
  await once(stream.session ?? silent, "connect");
  t.mock.timers.tick(9_999);
  t.mock.timers.tick(1);
  t.mock.timers.tick(4_999);
  assert.equal(stream.destroyed, false);
  t.mock.timers.tick(1);
  await failed;
  assert.equal(stream.destroyed, true);

  const again = request();
  again.on("error", () => undefined);
  assert.notEqual(again.session, stream.session);
  connection.close(new Error("closed"));
  assert.throws(request, /closed/);
});

test("closing also ends the streams of a session that has received a GOAWAY", async (t) => {
  const sessions: http2.ServerHttp2Session[] = [];
  const server = http2.createServer();
  server.on("session", (session) => sessions.push(session));
  server.on("stream", (stream) => stream.on("error", () => undefined).respond());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const connection = new Connection("http://localhost", () => connect(port, "127.0.0.1"));
  const open = async () => {
    const stream = connection.request(["POST", "/", {}, {}], true);
    await once(stream, "response");
    return stream;
  };
  const old = await open();
  sessions[0]?.goaway(http2.constants.NGHTTP2_NO_ERROR, 1);
  await once(old.session ?? server, "goaway");
  const streams = [old, await open()];
  assert.equal(sessions.length, 2);
  const ended = streams.map((stream) => once(stream, "close").catch((error) => error.message));
  connection.close(new Error("closed"));
  assert.deepEqual(await Promise.all(ended), ["closed", "closed"]);
});

test("closing ends an attempt to connect", async () => {
  const socket = connect({ host: "example.com", port: 1, lookup: () => undefined });
  const connection = new Connection("http://localhost", () => socket);
  const stream = connection.request(["POST", "/", {}, {}], true);
  const failed = once(stream, "close").catch((error) => error.message);
  connection.close(new Error("closed"));
  assert.match(await failed, /closed/);
  if (!socket.closed) await once(socket, "close");
});
