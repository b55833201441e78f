// Calls, a watch and a decrement over every transport, with the stubs of @grpc/proto-loader.
import assert from "node:assert/strict";
import { on } from "node:events";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const definition = loadSync("pausewatch/v1/elicitation_service.proto", { includeDirs: [process.argv[2]], defaults: true });
const { ElicitationService } = loadPackageDefinition(definition).pausewatch.v1;

async function use(service) {
    const options = () => ({ deadline: Date.now() + 60_000 });
    const call = (name) => promisify((request, done) => service[name](request, options(), done));
    const watch = service.WatchPauseState({ threadIds: ["grpc-js"] }, options());
    const events = on(watch, "data");
    async function next() {
        for (;;) {
            const [event] = (await events.next()).value;
            if (event.pauseState) return event.pauseState;
        }
    }
    assert.equal((await next()).count, 0);
    const opened = await call("IncrementElicitation")({ threadId: "grpc-js" });
    assert.deepEqual([opened.count, opened.paused], [1, true]);
    assert.equal((await next()).paused, true);
    const closed = await call("DecrementElicitation")({ threadId: "grpc-js" });
    assert.deepEqual([closed.count, closed.paused], [0, false]);
    assert.equal((await next()).paused, false);
    watch.on("error", () => {}); // The error is that it was cancelled.
    watch.cancel();
}

const { STUBS_TCP, STUBS_TLS, STUBS_CA, STUBS_UNIX } = process.env;
for (const [transport, address, access] of [
    ["tcp", STUBS_TCP, credentials.createInsecure()],
    ["tls", STUBS_TLS, credentials.createSsl(readFileSync(STUBS_CA))],
    ["unix", `unix:${STUBS_UNIX}`, credentials.createInsecure()],
]) {
    const service = new ElicitationService(address, access);
    await use(service);
    service.close();
    console.log("ok", transport);
}
