/** Timers that end with a signal. */
import { setTimeout as sleep } from "node:timers/promises";
import { onAbort } from "./abort.js";

/** The longest timeout for both a timer of Node and the header `grpc-timeout`: about a day. */
export const MAX_TIMEOUT_MS = 99_999_999;

/** Waits for `ms`. If one of the signals is aborted, it returns earlier without an error; the caller must check the signals. */
export async function delayFor(
  ms: number,
  keepsAlive: boolean,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<void> {
  // Not `AbortSignal.any`: in some versions of Node, a long-lived signal never releases the signals that were made from it.
  const ending = new AbortController();
  const stopListening = onAbort(signals, () => ending.abort());
  const { signal } = ending;
  await sleep(Math.min(ms, MAX_TIMEOUT_MS), undefined, { ref: keepsAlive, signal }).catch(() => undefined);
  stopListening();
}
