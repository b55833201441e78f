import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { Connection } from "../../src/connection.js";

test("a peer that answers no ping within 5 s is given up, and the next request connects anew", async (t) => {
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
