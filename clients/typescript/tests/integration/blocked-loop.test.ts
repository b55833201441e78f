/** A program that blocks its event loop, as with `execSync`: timers fire before what has arrived meanwhile is read. */
import assert from "node:assert/strict";
import { once } from "node:events";
import * as http2 from "node:http2";
import { type AddressInfo, connect, createServer } from "node:net";
import { test } from "node:test";
import { withinTime } from "../../src/channel.js";
import { Connection } from "../../src/connection.js";

/** The next turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

test("an answer to a ping that has arrived counts", async (t) => {
  const server = http2.createServer();
  server.on("stream", (stream) => stream.on("error", () => undefined).respond());
  const accepted = once(server, "session");
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  t.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const connection = new Connection("http://localhost", () => connect(port, "127.0.0.1"));
  const stream = connection.request(["POST", "/", {}, {}], true);
  stream.on("error", () => undefined);
  await once(stream, "response");
  const [peer] = (await accepted) as [http2.ServerHttp2Session];
  const pinged = once(peer, "ping");
  t.mock.timers.tick(10_000);
  await pinged;
  // The answer is sent in this turn of the event loop, and can be read in the next one.
  await turn();
  t.mock.timers.tick(5_000);
  await turn();
  await turn();
  const { destroyed } = stream;
  connection.close(new Error("closed"));
  assert.equal(destroyed, false);
});

test("a connection that was made in time counts", async (t) => {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const socket = withinTime(connect((server.address() as AddressInfo).port, "127.0.0.1"), "connect");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_100);
  await once(socket, "connect");
  socket.destroy();
});
