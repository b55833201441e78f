// Calls, a watch and a decrement over every transport, with the stubs of protoc-gen-es; gRPC first, then the Connect protocol.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { ElicitationService } from "./pausewatch/v1/elicitation_service_pb.js";

async function use(transport) {
    const service = createClient(ElicitationService, transport);
    const ends = new AbortController();
    const options = () => ({ timeoutMs: 60_000 });
    const watch = service.watchPauseState({ threadIds: ["connect-es"] }, { ...options(), signal: ends.signal });
    const events = watch[Symbol.asyncIterator]();
    async function next() {
        for (;;) {
            const { value } = await events.next();
            if (value.event.case === "pauseState") return value.event.value;
        }
    }
    assert.equal((await next()).count, 0);
    const opened = await service.incrementElicitation({ threadId: "connect-es" }, options());
    assert.deepEqual([opened.count, opened.paused], [1, true]);
    assert.equal((await next()).paused, true);
    const closed = await service.decrementElicitation({ threadId: "connect-es" }, options());
    assert.deepEqual([closed.count, closed.paused], [0, false]);
    assert.equal((await next()).paused, false);
    ends.abort();
}

const { STUBS_TCP, STUBS_TLS, STUBS_CA, STUBS_UNIX } = process.env;
for (const [transport, baseUrl, nodeOptions] of [
    ["tcp", `http://${STUBS_TCP}`, {}],
    ["tls", `https://${STUBS_TLS}`, { ca: readFileSync(STUBS_CA) }],
    ["unix", "http://localhost", { createConnection: () => connect(STUBS_UNIX) }],
]) {
    await use(createGrpcTransport({ baseUrl, nodeOptions }));
    await use(createConnectTransport({ httpVersion: "2", baseUrl, nodeOptions }));
    console.log("ok", transport);
}
process.exit(0); // The sessions would keep the process running for a while.
