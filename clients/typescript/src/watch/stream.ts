/**
 * The stream of the RPC `Watch`, for a set of threads that may change while it is open. It is reopened after every disconnect.
 *
 * 1. After each disconnect the whole set is sent again: there is no cursor.
 * 2. A stream without a message for two heartbeats counts as dead (two and a half, if the server reports its heartbeat interval), even if TCP
 *    reports no error; while it awaits a confirmation, sooner. Only the time spent waiting for the stream counts: neither a slow reader nor a
 *    blocked event loop disconnects its own stream. So a short silence is measured in slices, and how late each of them ended is subtracted:
 *    on a busy machine the event loop is blocked often, for a short time.
 * 3. While its listener has no capacity the stream is not read: HTTP/2 flow control stops the server, which keeps only the latest state of
 *    each thread.
 * 4. With several addresses, a stream that ends, or has no first answer in time, moves the whole client to the next address; a move by
 *    another part of the client ends the stream after a random delay.
 */
import { PassThrough } from "node:stream";
import { ConnectError } from "@connectrpc/connect";
import { onAbort } from "../abort.js";
import type { Calls } from "../calls.js";
import { afterArrivals } from "../connection.js";
import { CallError, fromStatus, LimitExceededError, refusalError, UnavailableError, unavailable } from "../errors.js";
import type { Refusal, WatchResponse } from "../gen/pausewatch/v1/elicitation_service_pb.js";
import { durationOf, type PauseState, pauseStateOf } from "../messages.js";
import { Backoff } from "../retry.js";
import { ANSWER_TIMEOUT_MS, MAX_MOVE_DELAY_MS } from "../route.js";
import { delayFor, MAX_TIMEOUT_MS } from "../timers.js";
import { renewalDelayMs, tokenWithin } from "../token.js";
import { Requests } from "./requests.js";

/**
 * The heartbeat interval of a server that does not report its own. A connection that ends after a longer silence was dead during the silence:
 * it was closed because a ping had no answer, or by this library.
 */
const MAX_HEARTBEAT_INTERVAL_MS = 15_000;
/** The longest silence of a server that does not report its heartbeat interval. */
const SILENCE_TIMEOUT_MS = 2 * MAX_HEARTBEAT_INTERVAL_MS;
/** The shortest and the longest heartbeat interval that a server may report. */
const ACCEPTED_INTERVALS_MS = { shortest: 100, longest: 3_600_000 };
/**
 * The longest silence while a confirmation is awaited: the first one, which doubles after each disconnect that it causes until a request is
 * answered; and the least one on a stream without an answer.
 */
const CONFIRMATION_TIMEOUT_MS = 250;
const FIRST_ANSWER_TIMEOUT_MS = 2_000;
/** The longest slice of a silence while a confirmation or a first answer is awaited. */
const SLICE_MS = 25;
/**
 * The delay before a stream is reopened: the first, the longest, and the longest while a confirmation is awaited; each plus up to as much
 * again at random.
 */
const FIRST_RETRY_DELAY_MS = 50;
const MAX_RETRY_DELAY_MS = 3_000;
const MAX_CONFIRMATION_DELAY_MS = 100;
/** The delay after a refusal that has none, and after a failed renewal of the token. */
const RETRY_AFTER_MS = 1_000;

/** Receives the events of the stream. */
export interface Listener {
  /** The threads that a new stream must watch; in a watch of all threads, those whose state it must send in any case. */
  threadIds(): Iterable<string>;
  state(state: PauseState): void;
  /** The states that `confirm` requested; the request was sent at `sentAt`. */
  confirmed(states: readonly PauseState[], sentAt: number): void;
  /** The state of every thread has arrived since the stream was opened. */
  complete(): void;
  /** The stream continues without these threads. */
  refused(threadIds: readonly string[], error: CallError): void;
  /** The stream was disconnected, or could not be opened. It reconnects by itself. */
  disconnected(error: CallError, silentForMs: number): void;
  /** `undefined`: more events can be received. Otherwise a promise that resolves when they can. */
  capacity(): Promise<void> | undefined;
}

export interface StreamOptions {
  readonly allThreads?: boolean;
  readonly includeElicitations?: boolean;
  readonly observer?: boolean;
}

/** The state of an open stream. */
class OpenStream {
  readonly outbox = new PassThrough({ objectMode: true });
  readonly ending = new AbortController();
  /** The last sign of life: when it was opened, its last message arrived, or its reader was ready for more. */
  lastSignAt = performance.now();
  hasMessage = false;
  /** Whether its first request was answered. */
  answered = false;
  requests = 0;
  readerIsSlow = false;
  /** The error, if the stream was ended because of its silence. */
  silent: CallError | undefined;
  /** Whether only a confirmation was late when the stream was ended because of its silence. */
  slow = false;
  /** The heartbeat interval of the server, if it has reported one. */
  intervalMs: number | undefined;
  /** The timer after which the stream follows its client to another address, and whether it has ended because of that. */
  move: NodeJS.Timeout | undefined;
  moved = false;
  silenceTimer: NodeJS.Timeout | undefined;
  /** The time since the last sign in which the event loop was blocked. */
  blockedMs = 0;
  retryTimer: NodeJS.Timeout | undefined;
  renewalTimer: NodeJS.Timeout | undefined;

  /** Notes a sign of life. */
  sign(): void {
    this.lastSignAt = performance.now();
    this.blockedMs = 0;
  }
}

export class WatchStream {
  readonly #calls: Calls;
  readonly #options: StreamOptions;
  readonly #listener: Listener;
  readonly #requests = new Requests();
  readonly #stop = new AbortController();
  #open: OpenStream | undefined;
  #confirmationTimeoutMs = CONFIRMATION_TIMEOUT_MS;
  #isSendScheduled = false;
  /** Ends the wait for a thread to watch, or the delay before the next stream. */
  #wake: () => void = () => undefined;

  constructor(calls: Calls, options: StreamOptions, listener: Listener) {
    this.#calls = calls;
    this.#options = options;
    this.#listener = listener;
  }

  start(): void {
    void this.#run();
  }

  close(): void {
    this.#stop.abort();
    this.#wake();
  }

  /** Whether a stream is open or being opened. */
  get isOpen(): boolean {
    return this.#open !== undefined;
  }

  add(threadId: string): void {
    this.#requests.add(threadId);
    this.#scheduleSend();
  }

  remove(threadId: string): void {
    this.#requests.remove(threadId);
    this.#scheduleSend();
  }

  /**
   * Requests the confirmation of the thread's state by a request that is sent at `since` or later, unless one is under
   * way. A disconnect cancels the confirmation; then it must be requested again.
   */
  confirm(threadId: string, since: number): void {
    const now = performance.now();
    const wasConfirming = this.#requests.confirmingSince(now) !== undefined;
    this.#requests.confirm(threadId, since, now);
    this.#scheduleSend();
    if (!wasConfirming && this.#open !== undefined) this.#scheduleSilenceCheck(this.#open);
  }

  /** Cancels the thread's confirmation: its answer is no longer needed. */
  cancelConfirmation(threadId: string): void {
    this.#requests.cancelConfirmation(threadId);
  }

  /** When the confirmation that is under way was sent. */
  sentAt(threadId: string): number | undefined {
    return this.#requests.sentAt(threadId);
  }

  /** Whether changes of the thread will arrive. */
  watches(threadId: string): boolean {
    return this.#requests.watches(threadId);
  }

  /** Sends soon: all changes in one turn of the event loop share a request. */
  #scheduleSend(): void {
    if (this.#isSendScheduled) return;
    this.#isSendScheduled = true;
    setImmediate(() => {
      this.#isSendScheduled = false;
      this.#wake();
      this.#send();
    });
  }

  #send(): void {
    const open = this.#open;
    if (open === undefined) return;
    const now = performance.now();
    const isFirst = open.requests === 0;
    const changes = this.#requests.next(now);
    clearTimeout(open.retryTimer);
    const delay = this.#requests.delayMs(now);
    if (delay !== undefined) {
      open.retryTimer = setTimeout(() => this.#send(), Math.min(Math.ceil(delay), MAX_TIMEOUT_MS)).unref();
    }
    if (changes === undefined && !(isFirst && this.#options.allThreads)) return;
    open.requests++;
    open.outbox.write({ add: [], remove: [], confirm: [], ...changes, ...(isFirst && this.#options) });
    this.#scheduleSilenceCheck(open);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const retryDelays = new Backoff(FIRST_RETRY_DELAY_MS, MAX_RETRY_DELAY_MS);
    const { route } = this.#calls.channel;
    let unanswered = 0;
    while (!signal.aborted && !this.#calls.closing.aborted) {
      this.#requests.restart(this.#listener.threadIds());
      if (!this.#options.allThreads && this.#requests.isComplete) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      // Before the stream is opened: the time of the token source is no silence of a replica.
      let token: string | undefined;
      try {
        token = await this.#firstToken();
      } catch (reason) {
        if (signal.aborted) return;
        this.#requests.disconnected(false);
        this.#listener.disconnected(fromStatus(ConnectError.from(reason)), 0);
        await this.#delay(retryDelays.next());
        continue;
      }
      // It may have been closed since the token arrived.
      if (signal.aborted) return;
      const { moves } = route;
      const { answered, error, silentForMs, slow, moved } = await this.#read(token);
      this.#requests.disconnected(answered);
      if (signal.aborted) return;
      this.#listener.disconnected(error, silentForMs);
      if (answered) {
        retryDelays.reset();
        unanswered = 0;
      }
      // Every address would refuse in the same way, so only UNAVAILABLE moves the client.
      const hasMoved = !slow && error instanceof UnavailableError && route.moveOn(moves);
      if (hasMoved) unanswered++;
      if (moved) continue;
      // Also after a stream that worked: the clients of a restarted server must not all reconnect at once.
      const isUntriedAddress = hasMoved && unanswered % route.addresses !== 0;
      const delayMs = isUntriedAddress ? FIRST_RETRY_DELAY_MS * (1 + Math.random()) : retryDelays.next();
      await this.#delay(delayMs, error instanceof LimitExceededError ? error.retryAfterMs : undefined);
    }
  }

  /** Waits `ms` before the next stream, or a shorter time while a confirmation is awaited, but in any case `minMs`. */
  async #delay(ms: number, minMs = 0): Promise<void> {
    const began = performance.now();
    const confirming = Math.min(ms, MAX_CONFIRMATION_DELAY_MS * (1 + Math.random()));
    while (!this.#stop.signal.aborted && !this.#calls.closing.aborted) {
      const now = performance.now();
      const delay = Math.max(this.#requests.confirmingSince(now) === undefined ? ms : confirming, minMs);
      const left = began + delay - now;
      if (left <= 0) return;
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      await delayFor(left, this.#calls.keepsAlive, woken.signal, this.#calls.closing);
    }
  }

  /**
   * The token for the next stream; `undefined`: it never changes.
   *
   * @throws {ConnectError} The source has returned none, or none in the time that it has for a call; or the watch was closed.
   */
  async #firstToken(): Promise<string | undefined> {
    const { channel, deadlineMs, keepsAlive, closing } = this.#calls;
    return await tokenWithin(deadlineMs, channel.nextToken(), keepsAlive, this.#stop.signal, closing);
  }

  /** Reads one stream to its end. Returns whether its first request was answered, why it ended, and how long it was silent before. */
  async #read(
    token: string | undefined,
  ): Promise<{ answered: boolean; error: CallError; silentForMs: number; slow: boolean; moved: boolean }> {
    const open = new OpenStream();
    const { signal } = open.ending;
    const end = () => open.ending.abort();
    const stopListening = onAbort([this.#stop.signal], end);
    this.#open = open;
    const stopFollowing = this.#calls.channel.route.onMove(() => this.#followLater(open));
    this.#send();
    let error: CallError;
    try {
      if (token !== undefined) this.#renewLater(open, token);
      for await (const message of this.#calls.watch(open.outbox, signal, token)) {
        if (signal.aborted) break;
        open.hasMessage = true;
        open.sign();
        this.#receive(open, message);
        const capacity = this.#listener.capacity();
        if (capacity === undefined) continue;
        open.readerIsSlow = true;
        await capacity;
        open.readerIsSlow = false;
        open.sign();
      }
      error = unavailable("the watch ended");
    } catch (reason) {
      error = reason instanceof CallError ? reason : fromStatus(ConnectError.from(reason), this.#calls.channel.address);
    }
    this.#open = undefined;
    end();
    open.outbox.end();
    clearTimeout(open.silenceTimer);
    clearTimeout(open.retryTimer);
    clearTimeout(open.renewalTimer);
    clearTimeout(open.move);
    stopFollowing();
    stopListening();
    const silence = open.hasMessage ? performance.now() - open.lastSignAt : 0;
    return {
      answered: open.answered,
      error: open.moved ? unavailable("the client has moved to another address") : (open.silent ?? error),
      silentForMs: silence >= (open.intervalMs ?? MAX_HEARTBEAT_INTERVAL_MS) ? silence : 0,
      slow: open.slow,
      moved: open.moved,
    };
  }

  /** Follows the client after a random delay, so that not all streams of a replica move at once. */
  #followLater(open: OpenStream): void {
    open.move ??= setTimeout(() => {
      open.moved = true;
      open.ending.abort();
    }, Math.random() * MAX_MOVE_DELAY_MS).unref();
  }

  #renewLater(open: OpenStream, token: string, delayMs = renewalDelayMs(token, Date.now())): void {
    open.renewalTimer = setTimeout(() => this.#renew(open, token), delayMs).unref();
  }

  /** Sends the current token if it differs from that of the stream. */
  async #renew(open: OpenStream, token: string): Promise<void> {
    let next: string | undefined;
    try {
      next = await this.#calls.channel.nextToken();
    } catch (error) {
      this.#calls.channel.tokenFailed(error);
    }
    if (open !== this.#open) return;
    if (next === undefined || !open.answered) {
      this.#renewLater(open, token, RETRY_AFTER_MS);
      return;
    }
    if (next !== token) {
      this.#requests.renew(next);
      this.#send();
    }
    this.#renewLater(open, next);
  }

  #receive(open: OpenStream, { event }: WatchResponse): void {
    switch (event.case) {
      case "pauseState":
        this.#listener.state(pauseStateOf(event.value));
        return;
      case "confirmation": {
        const states = event.value.pauseStates.map(pauseStateOf);
        const sentAt = this.#requests.sentAt(states[0]?.threadId ?? "");
        if (sentAt !== undefined) this.#listener.confirmed(states, sentAt);
        return;
      }
      case "snapshotComplete":
        this.#requests.onAnswer();
        break;
      case "refusal":
        this.#onRefusal(open, event.value);
        break;
      case "heartbeat": {
        const { interval } = event.value;
        const intervalMs = interval === undefined ? 0 : durationOf(interval);
        const { shortest, longest } = ACCEPTED_INTERVALS_MS;
        open.intervalMs = intervalMs > 0 ? Math.min(Math.max(intervalMs, shortest), longest) : undefined;
        this.#scheduleSilenceCheck(open);
        return;
      }
      default:
        // An event of a newer server.
        return;
    }
    open.answered = true;
    this.#confirmationTimeoutMs = CONFIRMATION_TIMEOUT_MS;
    if (this.#requests.isComplete) this.#listener.complete();
    this.#send();
  }

  #onRefusal(open: OpenStream, refusal: Refusal): void {
    const error = refusalError(refusal);
    const delay = (error instanceof LimitExceededError ? error.retryAfterMs : undefined) ?? RETRY_AFTER_MS;
    const unwatched = this.#requests.onRefusal(refusal.threadIds, performance.now() + delay);
    if (unwatched.length > 0) this.#listener.refused(unwatched, error);
    // The options of the watch were refused too. Only the first request of a stream can have them: the stream must be reopened.
    if (open.requests === 1 && Object.values(this.#options).includes(true)) throw error;
  }

  /** Sets the timer that ends the stream when it has been silent for too long. */
  #scheduleSilenceCheck(open: OpenStream): void {
    clearTimeout(open.silenceTimer);
    const now = performance.now();
    const isShort = !open.answered || this.#requests.confirmingSince(now) !== undefined;
    const silent = open.readerIsSlow ? now + SILENCE_TIMEOUT_MS : this.#silentAt(open, now) + open.blockedMs;
    const due = isShort ? Math.min(silent, now + SLICE_MS) : silent;
    const check = () => {
      open.blockedMs += Math.max(performance.now() - due, 0);
      afterArrivals(() => this.#endIfSilent(open));
    };
    open.silenceTimer = setTimeout(check, Math.max(due - now, 0)).unref();
  }

  #endIfSilent(open: OpenStream): void {
    if (open !== this.#open) return;
    const now = performance.now();
    const silentAt = this.#silentAt(open, now);
    if (open.readerIsSlow || now < silentAt + open.blockedMs) {
      this.#scheduleSilenceCheck(open);
      return;
    }
    const confirming = this.#requests.confirmingSince(now) !== undefined;
    open.silent = unavailable(`the watch was silent for ${Math.round(silentAt - open.lastSignAt)} ms`);
    open.slow = open.answered && silentAt - open.lastSignAt < silenceTimeoutMs(open);
    if (confirming) {
      this.#confirmationTimeoutMs = Math.min(this.#confirmationTimeoutMs * 2, SILENCE_TIMEOUT_MS);
    }
    open.ending.abort();
    // The connection may be dead too.
    this.#calls.channel.reconnect();
  }

  /** When the stream counts as dead, unless a message arrives. */
  #silentAt(open: OpenStream, now: number): number {
    const firstMs = Math.min(
      this.#calls.deadlineMs,
      this.#calls.channel.route.hasSeveral ? ANSWER_TIMEOUT_MS : SILENCE_TIMEOUT_MS,
    );
    const silence = open.answered ? silenceTimeoutMs(open) : Math.min(firstMs, silenceTimeoutMs(open));
    const since = this.#requests.confirmingSince(now);
    if (since === undefined) return open.lastSignAt + silence;
    const timeout = this.#confirmationTimeoutMs;
    const confirmation = open.answered ? timeout : Math.max(timeout, FIRST_ANSWER_TIMEOUT_MS);
    return Math.min(open.lastSignAt + silence, Math.max(open.lastSignAt, since) + confirmation);
  }
}

/** The longest silence of a stream that has answered its first request. */
function silenceTimeoutMs(open: OpenStream): number {
  return open.intervalMs === undefined ? SILENCE_TIMEOUT_MS : open.intervalMs * 2.5;
}
