/**
 * One stream of a watch, opened again whenever it breaks.
 *
 * 1. A stream without a message for two heartbeats counts as dead, even if TCP reports no error. Only time spent waiting for the stream counts: a slow reader
 *    does not break its own stream.
 * 2. While its listener has no room the stream is not read: HTTP/2 flow control tells the server, which keeps only the latest state of each
 *    thread.
 */
import { ConnectError } from "@connectrpc/connect";
import type { Calls } from "../calls.js";
import { type CallError, fromStatus, unavailable } from "../errors.js";
import { type PauseState, pauseStateOf } from "../messages.js";
import { Backoff, pauseFor } from "../retry.js";

/**
 * The time within which the server promises a heartbeat. A connection that ends after a longer silence was dead during it: its end is what a
 * ping without an answer, or this library, has made of the silence.
 */
const HEARTBEAT_MS = 15_000;
/** The longest silence. */
const SILENCE_MS = 2 * HEARTBEAT_MS;
/** The first pause before a stream is opened again, and the longest; each with up to as much again at random. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 3_000;

/** Receives what a stream brings. */
export interface Listener {
  state(state: PauseState): void;
  /** Each thread was told once since the stream was opened. */
  complete(): void;
  /** The stream broke or could not be opened. It reopens by itself. */
  broken(error: CallError, silentForMs: number): void;
  /** Nothing has changed. */
  alive(): void;
  /** Resolves when more can be told. */
  room(): Promise<void> | undefined;
}

/** Streams the states of `threadIds` (none: of every thread) to `listener` until `stop` is aborted. */
export async function runStream(
  calls: Calls,
  threadIds: string[],
  includeElicitations: boolean,
  listener: Listener,
  stop: AbortSignal,
): Promise<void> {
  const pauses = new Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
  while (!stop.aborted && !calls.closing.aborted) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    stop.addEventListener("abort", end);
    const { complete, error, lastMessage } = await read(calls, threadIds, includeElicitations, listener, attempt);
    stop.removeEventListener("abort", end);
    if (stop.aborted || calls.closing.aborted) return;
    const silentForMs = lastMessage === undefined ? 0 : performance.now() - lastMessage;
    listener.broken(error, silentForMs >= HEARTBEAT_MS ? silentForMs : 0);
    if (complete) pauses.reset();
    // Also after a stream that worked: the clients of a restarted server must not all come back at once.
    await pauseFor(pauses.next(), calls.keepsAlive, stop);
  }
}

/** Reads to the end of one stream: whether its snapshot was complete, why it ended, and when its last message came. */
async function read(
  calls: Calls,
  threadIds: string[],
  includeElicitations: boolean,
  listener: Listener,
  attempt: AbortController,
): Promise<{ complete: boolean; error: CallError; lastMessage: number | undefined }> {
  const { signal } = attempt;
  let complete = false;
  let silent: CallError | undefined;
  let lastMessage: number | undefined;
  const giveUpAfter = (ms: number) =>
    setTimeout(() => {
      silent = unavailable(`the watch was silent for ${ms} ms`);
      attempt.abort();
    }, ms).unref();
  let silence = giveUpAfter(Math.min(calls.deadlineMs, SILENCE_MS));
  try {
    for await (const { event } of calls.watch(threadIds, includeElicitations, signal)) {
      if (signal.aborted) break;
      clearTimeout(silence);
      if (event.case === "pauseState") {
        listener.state(pauseStateOf(event.value));
      } else if (event.case === "snapshotComplete") {
        complete = true;
        listener.complete();
      } else {
        // An event of a newer server is a sign of life too.
        listener.alive();
      }
      const room = listener.room();
      if (room !== undefined) await room;
      lastMessage = performance.now();
      silence = giveUpAfter(SILENCE_MS);
    }
    return { complete, error: silent ?? unavailable("the watch ended"), lastMessage };
  } catch (error) {
    return { complete, error: silent ?? fromStatus(ConnectError.from(error)), lastMessage };
  } finally {
    clearTimeout(silence);
  }
}
