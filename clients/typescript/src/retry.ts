/**
 * One unary call: a deadline, and within it retries of what found nobody.
 *
 * 1. The deadline covers everything: connecting, every attempt, every pause between them.
 * 2. Only UNAVAILABLE is retried: the server refused nothing, and the request id makes the repetition count once. So are too many calls a
 *    second, after the time that the server says: nothing changed.
 * 3. With several addresses, an attempt that finds nobody, or gets no answer in time, goes on at the next one at once. The pause comes after a
 *    full lap, which is one attempt. STORE_UNAVAILABLE and limits stay: another replica has the same store.
 * 4. The pause between attempts is random, so that the clients of a restarted server do not come back as one.
 */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError, type CallOptions as ConnectOptions } from "@connectrpc/connect";
import {
  type CallError,
  callLessOftenMs,
  deadlineExceeded,
  fromStatus,
  StoreUnavailableError,
  UnavailableError,
  unavailable,
} from "./errors.js";
import { NO_ANSWER_MS, Route } from "./route.js";

/** The longest time that a timer of Node and the header `grpc-timeout` can take: about a day. */
const LONGEST_TIMEOUT_MS = 99_999_999;
/** The grain of timers. */
const TICK_MS = 2;

/** Pauses that double from `first` to `most`, each with up to as much again at random, for ever. */
export class Backoff {
  readonly #first: number;
  readonly #most: number;
  #next: number;

  constructor(firstMs: number, mostMs: number) {
    this.#first = firstMs;
    this.#most = mostMs;
    this.#next = firstMs;
  }

  next(): number {
    const pause = this.#next;
    this.#next = Math.min(pause * 2, this.#most);
    return pause * (1 + Math.random());
  }

  reset(): void {
    this.#next = this.#first;
  }
}

/** How patient a call is. */
export interface Patience {
  readonly deadlineMs: number;
  readonly retries: number;
  readonly signal?: AbortSignal | undefined;
}

/** What a call is made over. */
export interface Line {
  /** Aborted when the client is closed, with the error to end every call with. */
  readonly closing: AbortSignal;
  /** Whether the process lives on while the call is under way. */
  readonly keepsAlive: boolean;
  /** Where it leads to, for errors. */
  readonly address: string;
  /** Which replica it leads to now; absent: there is one. */
  readonly route?: Route;
}

/**
 * Calls `send` until there is an answer, a refusal, or no time left.
 *
 * @throws The reason of `patience.signal`, when it is aborted. Whether the call counted is unknown then.
 */
export async function unary<R>(
  line: Line,
  patience: Patience,
  send: (options: ConnectOptions) => Promise<R>,
): Promise<R> {
  const { deadlineMs, signal } = patience;
  const giveUp = performance.now() + deadlineMs;
  const pauses = callPauses();
  const { route = new Route(1) } = line;
  // Half of a short deadline, so that another replica has the other half.
  const limit = route.several ? Math.min(NO_ANSWER_MS, deadlineMs / 2) : Number.POSITIVE_INFINITY;
  let last: UnavailableError | undefined;
  let { retries } = patience;
  let unanswered = 0;
  for (;;) {
    signal?.throwIfAborted();
    line.closing.throwIfAborted();
    let error: CallError;
    const { moves } = route;
    const end = Math.min(performance.now() + limit, giveUp);
    try {
      return await attempt(line, end - performance.now(), signal, send);
    } catch (reason) {
      signal?.throwIfAborted();
      line.closing.throwIfAborted();
      const status = ConnectError.from(reason);
      if (ended(status) && performance.now() + TICK_MS >= giveUp) {
        // It waited for a connection: that there was none is what the caller must know.
        if (last !== undefined) throw unavailable(`${last.message}; no answer within ${deadlineMs} ms`);
        throw deadlineExceeded(deadlineMs);
      }
      const late = end < giveUp && ended(status) && performance.now() + TICK_MS >= end;
      error = late ? unavailable(`${line.address}: no answer within ${limit} ms`) : fromStatus(status, line.address);
    }
    last = error instanceof UnavailableError ? error : undefined;
    if (last !== undefined && route.moveOn(moves)) {
      unanswered++;
      if (unanswered % route.addresses !== 0 && performance.now() < giveUp) continue;
    }
    const pause = pauseAfter(error, pauses);
    if (pause === undefined) throw error;
    // Waiting past the deadline would only hide the reason behind DEADLINE_EXCEEDED.
    if (retries-- <= 0 || performance.now() + pause >= giveUp) throw error;
    await pauseFor(pause, line.keepsAlive, line.closing, signal);
  }
}

export function callPauses(): Backoff {
  return new Backoff(25, 1_000);
}

/** How long to wait before a call that ended so is made again; `undefined`: the error is final. */
export function pauseAfter(error: CallError, pauses: Backoff): number | undefined {
  const wait = callLessOftenMs(error);
  const nobody = error instanceof UnavailableError || error instanceof StoreUnavailableError;
  return wait === undefined && !nobody ? undefined : pauses.next() + (wait ?? 0);
}

/** Waits; an abort of one of the signals ends it sooner, and is for the caller to look at. */
export async function pauseFor(
  ms: number,
  keepsAlive: boolean,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<void> {
  // Not `AbortSignal.any`: in some versions of Node a signal that lives long never forgets those made from it.
  const ending = new AbortController();
  const end = () => ending.abort();
  if (signals.some((signal) => signal?.aborted)) return;
  for (const signal of signals) signal?.addEventListener("abort", end);
  const { signal } = ending;
  await sleep(Math.min(ms, LONGEST_TIMEOUT_MS), undefined, { ref: keepsAlive, signal }).catch(() => undefined);
  for (const signal of signals) signal?.removeEventListener("abort", end);
}

/** The timer and the server each end a call at its deadline, and name it differently. */
function ended({ code }: ConnectError): boolean {
  return code === Code.DeadlineExceeded || code === Code.Canceled;
}

/** One attempt, ended after `leftMs`. */
async function attempt<R>(
  line: Line,
  leftMs: number,
  signal: AbortSignal | undefined,
  send: (options: ConnectOptions) => Promise<R>,
): Promise<R> {
  const timeoutMs = Math.ceil(Math.min(Math.max(leftMs, 1), LONGEST_TIMEOUT_MS));
  if (line.keepsAlive) return send(signal === undefined ? { timeoutMs } : { timeoutMs, signal });
  // Connect's own timer would keep the process alive.
  const ending = new AbortController();
  const end = () => ending.abort();
  const timer = setTimeout(end, timeoutMs).unref();
  signal?.addEventListener("abort", end);
  try {
    return await send({ headers: { "grpc-timeout": `${timeoutMs}m` }, signal: ending.signal });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
  }
}
