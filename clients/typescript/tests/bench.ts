/**
 * Measures what the client adds to a unary call. The generated stub and the client call GetPauseState in alternating
 * blocks, each over its own connection, at the coordinator that PAUSEWATCH_ADDRESS names, else at one that the
 * benchmark starts.
 *
 * Prints one line of JSON with the medians, in microseconds.
 */
import { performance } from "node:perf_hooks";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ElicitationService } from "../src/gen/pausewatch/v1/elicitation_service_pb.js";
import { Client } from "../src/index.js";
import { Coordinator } from "./support/coordinator.js";

const WARM_UP = 1_000;
const BLOCKS = 50;
const CALLS_PER_BLOCK = 100;

await using coordinator = process.env.PAUSEWATCH_ADDRESS ? undefined : await Coordinator.start();
const address = coordinator?.address ?? process.env.PAUSEWATCH_ADDRESS ?? "";
const stub = createClient(ElicitationService, createGrpcTransport({ baseUrl: `http://${address}` }));
using client = new Client({ address });

const calls = {
  stub: () => stub.getPauseState({ threadId: "bench" }),
  client: () => client.getPauseState({ threadId: "bench" }),
};

async function measure(call: () => Promise<unknown>, times: number, micros: number[]): Promise<void> {
  for (let i = 0; i < times; i++) {
    const started = performance.now();
    await call();
    micros.push((performance.now() - started) * 1_000);
  }
}

function median(values: number[]): number {
  const middle = values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
  return Math.round(middle * 10) / 10;
}

const micros = { stub: [] as number[], client: [] as number[] };
for (const which of ["stub", "client"] as const) await measure(calls[which], WARM_UP, []);
for (let block = 0; block < BLOCKS; block++) {
  // In turns first, so that neither always follows the other.
  const turns = block % 2 === 0 ? (["stub", "client"] as const) : (["client", "stub"] as const);
  for (const which of turns) await measure(calls[which], CALLS_PER_BLOCK, micros[which]);
}
const result = {
  client: "typescript",
  calls: BLOCKS * CALLS_PER_BLOCK,
  stub_us: median(micros.stub),
  client_us: median(micros.client),
};
console.log(JSON.stringify(result));
