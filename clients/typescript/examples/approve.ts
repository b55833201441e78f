/**
 * Asks a person for an approval at the terminal; meanwhile the commands of the thread are not charged.
 *
 *     node approve.js [--thread-id ID] [--address ADDRESS] [--ttl SECONDS] [--answer-after SECONDS] QUESTION
 *
 * Exit codes: 0 approved, 1 declined, 2 too late or trouble.
 */
import { once } from "node:events";
import { stdin, stdout } from "node:process";
import { createInterface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Client, ElicitationExpiredError, type Hold } from "pausewatch";

const OPTIONS = {
  address: { type: "string" },
  "answer-after": { type: "string" },
  "thread-id": { type: "string" },
  ttl: { type: "string" },
} as const;

/** Waits for the answer: of a person, or `yes` after a while. */
async function answer(question: string, after: number | undefined, signal: AbortSignal): Promise<boolean> {
  if (after !== undefined) {
    await sleep(after * 1_000, undefined, { signal });
    return true;
  }
  const terminal = createInterface({ input: stdin, output: stdout });
  const left = once(terminal, "close").then(() => Promise.reject(new Error("no answer")));
  try {
    const text = await Promise.race([terminal.question(`${question} [y/N] `, { signal }), left]);
    return /^y(es)?$/i.test(text.trim());
  } finally {
    left.catch(() => undefined);
    terminal.close();
  }
}

/** Says it while the person still thinks: the answer may be too late already. */
async function warnWhenLost(hold: Hold, signal: AbortSignal): Promise<void> {
  const lease = await hold.lost({ signal }).catch(() => undefined);
  if (lease !== undefined) console.error(`approve: the pause is not certain any more: its lease is ${lease}`);
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true });
  const question = positionals.join(" ") || "Go on?";
  const after = values["answer-after"] === undefined ? undefined : Number(values["answer-after"]);
  const ttl = values.ttl === undefined ? {} : { ttlMs: Number(values.ttl) * 1_000 };
  using client = Client.fromEnv({ address: values.address, threadId: values["thread-id"] });
  const interrupted = new AbortController();
  process.once("SIGINT", () => interrupted.abort(new Error("interrupted")));

  const approved = await client.withHold(undefined, { reason: question, ...ttl }, async (hold) => {
    const answered = new AbortController();
    void warnWhenLost(hold, answered.signal);
    try {
      return await answer(question, after, interrupted.signal);
    } finally {
      answered.abort();
    }
  });
  console.log(approved ? "approved" : "declined");
  return approved ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  const late = error instanceof ElicitationExpiredError;
  console.error(
    `approve: ${late ? "the answer came too late: " : ""}${error instanceof Error ? error.message : error}`,
  );
  process.exitCode = 2;
}
