/** A program that blocks its event loop, as with `execSync`: timers fire before what has arrived meanwhile is read. */
import assert from "node:assert/strict";
import { once } from "node:events";
import * as http2 from "node:http2";
import { type AddressInfo, connect, createServer } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { withinTime } from "../../src/channel.js";
import { Connection } from "../../src/connection.js";
import { Client, type Link } from "../../src/index.js";
import { event, FakeCoordinator } from "../support/fake.js";

/** The next turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

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
  block(2_100);
  await once(socket, "connect");
  socket.destroy();
});

test("time in which the loop was blocked is no silence of a stream that owes a confirmation", async () => {
  const state = { threadId: "t", revision: 1n };
  await using fake = await FakeCoordinator.start({
    async *watch(requests) {
      for await (const { confirm } of requests) {
        if (confirm.length > 0) {
          // Most of the 250 ms that the answer may take. The rest of them is over when it comes.
          block(200);
          await sleep(100);
          yield event.confirmation(state);
        } else {
          yield event.state(state);
        }
        yield event.snapshotComplete();
      }
    },
  });
  const links: Link["state"][] = [];
  using client = new Client({ address: fake.address, onLink: ({ state }) => links.push(state) });
  using timeout = client.startTimeout(100, { threadId: "t" });
  await new Promise((resolve) => timeout.signal.addEventListener("abort", resolve));
  assert.deepEqual(links, ["connected"]);
});
