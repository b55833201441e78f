/** Runs one block; test-readme lists them. */
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pausewatch";

export async function run(place: string, block: () => Promise<void>): Promise<void> {
  // A watch runs until it is closed: here it ends with its client, after the first state.
  let hasState = () => {};
  const first = new Promise<void>((resolve) => {
    hasState = resolve;
  });
  const log = console.log;
  console.log = (...parts: unknown[]) => {
    log(...parts);
    hasState();
  };
  const watches = new Set<{ close(): void }>();
  const watch = Client.prototype.watch;
  Client.prototype.watch = function (...named) {
    const made = watch.apply(this, named);
    watches.add(made);
    return made;
  };
  void first.then(() => {
    for (const each of watches) each.close();
  });
  const late = sleep(60_000, undefined, { ref: false }).then(() => Promise.reject(new Error(`${place} does not end`)));
  await Promise.race([block(), late]);
  console.log = log;
  Client.prototype.watch = watch;
  console.log(`ok ${place}`);
}
