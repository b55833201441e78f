/** What the blocks of the pages use and do not show. */
import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pausewatch";

export const client = Client.fromEnv();
export const timeout = client.startTimeout(60_000, { threadId: "thread-1" });

export async function askThePerson(): Promise<boolean> {
  if ((await client.getPauseState({ threadId: "thread-1" })).count !== 1)
    throw new Error("the block does not hold the thread");
  return true;
}

const server = http.createServer((_, response) => response.end("here")).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
export const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;

export async function command(signal: AbortSignal): Promise<void> {
  await sleep(10, undefined, { signal });
}

export const subAgent = { result: async () => "done" };
