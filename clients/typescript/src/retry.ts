/**
 * One unary call: its deadline, and its retries within the deadline.
 *
 * 1. The deadline covers everything: connecting, every attempt, and every retry delay.
 * 2. UNAVAILABLE is retried: the server refused nothing, and the request id makes the repetition count once. Exceeding the limit of calls per
 *    second is retried too, after the delay that the server returns: nothing changed. Other errors are not retried.
 * 3. With several addresses, an attempt without a connection, or without an answer in time, is repeated at the next address at once. The retry
 *    delay follows when all addresses have failed, which counts as one attempt. STORE_UNAVAILABLE and limits are retried at the same address:
 *    another replica has the same store.
 * 4. Retry delays are random, so that the clients of a restarted server do not all reconnect at the same time.
 */
import { performance } from "node:perf_hooks";
import { Code, ConnectError, type CallOptions as ConnectOptions } from "@connectrpc/connect";
import { onAbort } from "./abort.js";
import {
  type CallError,
  deadlineExceeded,
  fromStatus,
  InterceptorError,
  rateLimitDelayMs,
  StoreUnavailableError,
  UnavailableError,
  unavailable,
} from "./errors.js";
import { ANSWER_TIMEOUT_MS, type Route } from "./route.js";
import { delayFor, MAX_TIMEOUT_MS } from "./timers.js";
import { bearer, tokenWithin } from "./token.js";

/** The resolution of timers. */
const TICK_MS = 2;

/** Retry delays without end, which double from `firstMs` to `maxMs`; each plus up to 100 % at random. */
export class Backoff {
  readonly #first: number;
  readonly #max: number;
  #next: number;

  constructor(firstMs: number, maxMs: number) {
    this.#first = firstMs;
    this.#max = maxMs;
    this.#next = firstMs;
  }

  next(): number {
    const delay = this.#next;
    this.#next = Math.min(delay * 2, this.#max);
    return delay * (1 + Math.random());
  }

  reset(): void {
    this.#next = this.#first;
  }
}

/** The limits of a call. */
export interface CallLimits {
  readonly deadlineMs: number;
  readonly retries: number;
  readonly signal?: AbortSignal | undefined;
}

/** The connection over which a call is made. */
export interface CallTarget {
  /** Aborted when the client is closed; its reason is the error that ends every call. */
  readonly closing: AbortSignal;
  /** Whether calls keep the process alive. */
  readonly keepsAlive: boolean;
  /** `address`: for errors; `route`: to the present replica; `nextToken`: see `Channel.nextToken`. */
  readonly channel: {
    readonly address: string;
    readonly route: Route;
    nextToken(): Promise<string | undefined>;
  };
}

/**
 * Calls `send` until the call is answered or refused, or its deadline has passed.
 *
 * @throws The reason of `limits.signal`, if it is aborted. Then it is unknown whether the call counted.
 */
export async function unary<R>(
  target: CallTarget,
  limits: CallLimits,
  send: (options: ConnectOptions) => Promise<R>,
): Promise<R> {
  const { deadlineMs, signal } = limits;
  // NaN counts as 0.
  const giveUp = performance.now() + (deadlineMs > 0 ? deadlineMs : 0);
  const retryDelays = callRetryDelays();
  const { address, route } = target.channel;
  // At most half of the deadline, so that time is left for another replica.
  const limit = route.hasSeveral ? Math.min(ANSWER_TIMEOUT_MS, deadlineMs / 2) : Number.POSITIVE_INFINITY;
  let last: UnavailableError | undefined;
  let { retries } = limits;
  let unanswered = 0;
  for (;;) {
    signal?.throwIfAborted();
    target.closing.throwIfAborted();
    let error: CallError;
    // Before the attempt: the time of the token source is no silence of a replica.
    const token = await firstToken(target, giveUp - performance.now(), signal);
    const { moves } = route;
    const end = Math.min(performance.now() + limit, giveUp);
    try {
      return await attempt(target, end - performance.now(), token, signal, send);
    } catch (reason) {
      signal?.throwIfAborted();
      target.closing.throwIfAborted();
      const status = ConnectError.from(reason);
      if (status.cause instanceof InterceptorError) throw status.cause.thrown;
      if (ended(status) && performance.now() + TICK_MS >= giveUp) {
        // The attempt waited for a connection. UNAVAILABLE says more: there was no connection.
        if (last !== undefined) throw unavailable(`${last.message}; no answer within ${deadlineMs} ms`);
        throw deadlineExceeded(deadlineMs);
      }
      const late = end < giveUp && ended(status) && performance.now() + TICK_MS >= end;
      error = late ? unavailable(`${address}: no answer within ${limit} ms`) : fromStatus(status, address);
    }
    last = error instanceof UnavailableError ? error : undefined;
    if (last !== undefined && route.moveOn(moves)) {
      unanswered++;
      if (unanswered % route.addresses !== 0 && performance.now() < giveUp) continue;
    }
    const delay = retryDelayAfter(error, retryDelays);
    if (delay === undefined) throw error;
    // Waiting past the deadline would only hide the reason behind DEADLINE_EXCEEDED.
    if (retries-- <= 0 || performance.now() + delay >= giveUp) throw error;
    await delayFor(delay, target.keepsAlive, target.closing, signal);
  }
}

export function callRetryDelays(): Backoff {
  return new Backoff(25, 1_000);
}

/** The delay before a call that ended with `error` is retried; `undefined`: the error is final. */
export function retryDelayAfter(error: CallError, retryDelays: Backoff): number | undefined {
  const limitDelay = rateLimitDelayMs(error);
  const isUnavailable = error instanceof UnavailableError || error instanceof StoreUnavailableError;
  return limitDelay === undefined && !isUnavailable ? undefined : retryDelays.next() + (limitDelay ?? 0);
}

/** Whether the call ended at its deadline: the timer and the server end it with different codes. */
function ended({ code }: ConnectError): boolean {
  return code === Code.DeadlineExceeded || code === Code.Canceled;
}

/** The token for an attempt; `undefined`: it never changes. */
async function firstToken(
  target: CallTarget,
  leftMs: number,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  try {
    return await tokenWithin(leftMs, target.channel.nextToken(), target.keepsAlive, signal, target.closing);
  } catch (reason) {
    signal?.throwIfAborted();
    target.closing.throwIfAborted();
    throw fromStatus(ConnectError.from(reason));
  }
}

/**
 * Makes one attempt, which ends after `leftMs`, with `signal` and with the client, even if an interceptor or the program's own transport never
 * answers.
 */
async function attempt<R>(
  target: CallTarget,
  leftMs: number,
  token: string | undefined,
  signal: AbortSignal | undefined,
  send: (options: ConnectOptions) => Promise<R>,
): Promise<R> {
  const timeoutMs = Math.ceil(Math.min(Math.max(leftMs, 1), MAX_TIMEOUT_MS));
  const ending = new AbortController();
  let end = () => ending.abort();
  const ended = new Promise<never>((_, reject) => {
    end = () => {
      ending.abort();
      reject(new ConnectError("the call was ended", Code.Canceled));
    };
  });
  const timer = setTimeout(end, timeoutMs);
  if (!target.keepsAlive) timer.unref();
  // Not Connect's `timeoutMs`: its timer would keep the process alive, also when the call was ended before.
  const authorization = token === undefined ? {} : { authorization: bearer(token) };
  const headers = { "grpc-timeout": `${timeoutMs}m`, ...authorization };
  const stopListening = onAbort([signal, target.closing], end);
  try {
    return await Promise.race([send({ headers, signal: ending.signal }), ended]);
  } finally {
    clearTimeout(timer);
    stopListening();
  }
}
