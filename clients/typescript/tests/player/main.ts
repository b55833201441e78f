/** The player: one JSON object a line from standard input, one a line to standard output. */
import { createInterface } from "node:readline";
import { Player, type Step } from "./player.js";
import { errorToWire } from "./wire.js";

const player = new Player();

async function answer(line: string): Promise<void> {
  const step: Step = JSON.parse(line);
  const { id } = step;
  const played = await player.play(step).then(
    (ok) => ({ id, ok }),
    (error: unknown) => ({ id, error: errorToWire(error) }),
  );
  process.stdout.write(`${JSON.stringify(played)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) void answer(line);
process.exit(0);
