/** A program that uses the library for as long as it is asked to: one line of JSON a round from standard input, one a round to standard output. */
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { type Order, playRound } from "./round.js";

declare const gc: () => void;

// Of the library, only errors are of interest here: a disturbed server causes warnings.
for await (const line of createInterface({ input: process.stdin })) {
  const order: Order = JSON.parse(line);
  const result = await playRound(order);
  for (let turn = 0; turn < 5; turn++) {
    await sleep(100);
    gc();
  }
  const tasks = process.getActiveResourcesInfo().length;
  process.stdout.write(`${JSON.stringify({ round: order.round, ...result, tasks })}\n`);
}
process.exit(0);
