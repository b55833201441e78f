/**
 * Runs a command of a thread under a limit that a person's slowness does not use up: an exec server in short.
 *
 *     node run.js MILLISECONDS COMMAND [ARG]...
 *
 * Exit codes: the command's, 124 when the time was out, 125 for trouble.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Client } from "pausewatch";

async function run(client: Client, limitMs: number, command: string, args: string[]): Promise<number> {
  using timeout = client.startTimeout(limitMs);
  const child = spawn(command, args, { stdio: "inherit", signal: timeout.signal, killSignal: "SIGKILL" });
  try {
    const [code] = await once(child, "exit");
    return code ?? 1;
  } catch (error) {
    if (timeout.expired) return 124;
    throw error;
  }
}

const [limit, command, ...args] = process.argv.slice(2);
try {
  if (command === undefined) throw new Error("usage: run.js MILLISECONDS COMMAND [ARG]...");
  using client = Client.fromEnv();
  process.exitCode = await run(client, Number(limit), command, args);
} catch (error) {
  console.error(`run: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 125;
}
