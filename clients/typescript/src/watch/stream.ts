/**
 * One stream of `Watch`, for a set of threads that may change while it is open. It is opened again whenever it breaks.
 *
 * 1. After each break the whole set is sent again: there is no cursor.
 * 2. A stream without a message for two heartbeats counts as dead (for two and a half, if the server says how often they come), even if TCP
 *    reports no error; sooner, if it owes the answer to a confirmation. Only time spent waiting for the stream counts: neither a slow reader nor a program that was held up breaks its own stream.
 * 3. While its listener has no room the stream is not read: HTTP/2 flow control tells the server, which keeps only the latest state of each
 *    thread.
 * 4. With several addresses, a stream that ends, or has no first answer in time, moves the whole client to the next one; a move by others ends
 *    the stream after a random delay.
 */
import { PassThrough } from "node:stream";
import { ConnectError } from "@connectrpc/connect";
import type { Calls } from "../calls.js";
import { CallError, fromStatus, LimitExceededError, refusalError, UnavailableError, unavailable } from "../errors.js";
import type { Refusal, WatchResponse } from "../gen/pausewatch/v1/elicitation_service_pb.js";
import { durationOf, type PauseState, pauseStateOf } from "../messages.js";
import { Backoff, pauseFor } from "../retry.js";
import { LONGEST_MOVE_DELAY_MS, NO_ANSWER_MS } from "../route.js";
import { askAgainAfterMs } from "../token.js";
import { Requests } from "./requests.js";

/**
 * The time within which a server promises a heartbeat that does not say its own. A connection that ends after a longer silence was dead during it: its end is what a
 * ping without an answer, or this library, has made of the silence.
 */
const HEARTBEAT_MS = 15_000;
/** The longest silence then. */
const SILENCE_MS = 2 * HEARTBEAT_MS;
/** The shortest interval that a server may say. */
const LEAST_HEARTBEAT_MS = 100;
/** The longest silence before the answer to a confirmation: at first, doubled until an answer comes, and at least on a new stream. */
const ANSWER_MS = 250;
const FIRST_ANSWER_MS = 2_000;
/** A timer that is later than this was held up by its own program. */
const HELD_UP_MS = 20;
/** Before a stream is opened again: at first, at most, and at most while a confirmation waits; each with up to as much again at random. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 3_000;
const CONFIRMING_PAUSE_MS = 100;
/** After a refusal that does not say when to try again. */
const TRY_AGAIN_MS = 1_000;

/** Receives what the stream brings. */
export interface Listener {
  /** The threads that a new stream is to watch, or with all threads those that it must tell in any case. */
  threadIds(): Iterable<string>;
  state(state: PauseState): void;
  /** The states that were asked for by `confirm`, at `sentAt`. */
  confirmed(states: readonly PauseState[], sentAt: number): void;
  /** Each thread was told since the stream was opened. */
  complete(): void;
  /** The stream goes on without these. */
  refused(threadIds: readonly string[], error: CallError): void;
  /** The stream broke or could not be opened. It reopens by itself. */
  broken(error: CallError, silentForMs: number): void;
  /** Resolves when more can be told. */
  room(): Promise<void> | undefined;
}

export interface StreamOptions {
  readonly allThreads?: boolean;
  readonly includeElicitations?: boolean;
  readonly observer?: boolean;
}

/** What is known of a stream that is open. */
class Open {
  readonly outbox = new PassThrough({ objectMode: true });
  readonly ending = new AbortController();
  /** When it was opened, or brought its last message, or its reader was ready for more. */
  heardAt = performance.now();
  hasMessage = false;
  /** Its first request was answered. */
  answered = false;
  requests = 0;
  readerIsSlow = false;
  silent: CallError | undefined;
  /** Only the answer to a confirmation was awaited for too long. */
  slow = false;
  /** How often the server sends a heartbeat, if it has said so. */
  intervalMs: number | undefined;
  /** It is about to follow its client to another address, or has ended for that. */
  move: NodeJS.Timeout | undefined;
  moved = false;
  watchdog: NodeJS.Timeout | undefined;
  sendAgain: NodeJS.Timeout | undefined;
  renewal: NodeJS.Timeout | undefined;
}

export class WatchStream {
  readonly #calls: Calls;
  readonly #options: StreamOptions;
  readonly #listener: Listener;
  readonly #requests = new Requests();
  readonly #stop = new AbortController();
  #open: Open | undefined;
  #answerMs = ANSWER_MS;
  #planned = false;
  /** Ends a wait for a thread to watch, or the pause before the next stream. */
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
    this.#plan();
  }

  remove(threadId: string): void {
    this.#requests.remove(threadId);
    this.#plan();
  }

  /** Asks for the state that a thread has at `since` or later, unless that is under way. A break ends that: whoever still needs it asks again. */
  confirm(threadId: string, since: number): void {
    const now = performance.now();
    const wasConfirming = this.#requests.confirmingSince(now) !== undefined;
    this.#requests.confirm(threadId, since, now);
    this.#plan();
    if (!wasConfirming && this.#open !== undefined) this.#watchOver(this.#open);
  }

  /** Nobody needs the confirmation any more. */
  forget(threadId: string): void {
    this.#requests.forget(threadId);
  }

  /** When the confirmation that is under way was requested. */
  sentAt(threadId: string): number | undefined {
    return this.#requests.sentAt(threadId);
  }

  /** Whether changes of the thread will come. */
  watches(threadId: string): boolean {
    return this.#requests.watches(threadId);
  }

  /** Sends soon: what changes in one turn of the event loop shares a request. */
  #plan(): void {
    if (this.#planned) return;
    this.#planned = true;
    setImmediate(() => {
      this.#planned = false;
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
    clearTimeout(open.sendAgain);
    const wait = this.#requests.heldBackMs(now);
    if (wait !== undefined) open.sendAgain = setTimeout(() => this.#send(), Math.ceil(wait)).unref();
    if (changes === undefined && !(isFirst && this.#options.allThreads)) return;
    open.requests++;
    open.outbox.write({ add: [], remove: [], confirm: [], ...changes, ...(isFirst && this.#options) });
    this.#watchOver(open);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const pauses = new Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    const { route } = this.#calls;
    let unanswered = 0;
    while (!signal.aborted && !this.#calls.closing.aborted) {
      this.#requests.restart(this.#listener.threadIds());
      if (!this.#options.allThreads && this.#requests.isComplete) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      const { moves } = route;
      const { answered, error, silentForMs, slow, moved } = await this.#read();
      this.#requests.disconnected(answered);
      if (signal.aborted) return;
      this.#listener.broken(error, silentForMs);
      if (answered) {
        pauses.reset();
        unanswered = 0;
      }
      // A refusal is the same everywhere.
      const leaves = !slow && error instanceof UnavailableError && route.moveOn(moves);
      if (leaves) unanswered++;
      if (moved) continue;
      // Also after a stream that worked: the clients of a restarted server must not all come back at once.
      const midLap = leaves && unanswered % route.addresses !== 0;
      await this.#pause(midLap ? FIRST_PAUSE_MS * (1 + Math.random()) : pauses.next());
    }
  }

  async #pause(ms: number): Promise<void> {
    const began = performance.now();
    const confirming = Math.min(ms, CONFIRMING_PAUSE_MS * (1 + Math.random()));
    while (!this.#stop.signal.aborted && !this.#calls.closing.aborted) {
      const now = performance.now();
      const left = began + (this.#requests.confirmingSince(now) === undefined ? ms : confirming) - now;
      if (left <= 0) return;
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      await pauseFor(left, this.#calls.keepsAlive, woken.signal, this.#calls.closing);
    }
  }

  /** One stream, to its end: whether its first request was answered, why it ended, and how long it was silent before. */
  async #read(): Promise<{ answered: boolean; error: CallError; silentForMs: number; slow: boolean; moved: boolean }> {
    const open = new Open();
    const { signal } = open.ending;
    const end = () => open.ending.abort();
    this.#stop.signal.addEventListener("abort", end);
    this.#open = open;
    const forgetMoves = this.#calls.route.onMove(() => this.#followLater(open));
    this.#send();
    let error: CallError;
    try {
      const token = await this.#calls.nextToken();
      if (token !== undefined) this.#renewLater(open, token);
      for await (const message of this.#calls.watch(open.outbox, signal, token)) {
        if (signal.aborted) break;
        open.hasMessage = true;
        open.heardAt = performance.now();
        this.#receive(open, message);
        const room = this.#listener.room();
        if (room === undefined) continue;
        open.readerIsSlow = true;
        await room;
        open.readerIsSlow = false;
        open.heardAt = performance.now();
      }
      error = unavailable("the watch ended");
    } catch (reason) {
      error = reason instanceof CallError ? reason : fromStatus(ConnectError.from(reason), this.#calls.address);
    }
    this.#open = undefined;
    end();
    open.outbox.end();
    clearTimeout(open.watchdog);
    clearTimeout(open.sendAgain);
    clearTimeout(open.renewal);
    clearTimeout(open.move);
    forgetMoves();
    this.#stop.signal.removeEventListener("abort", end);
    const silence = open.hasMessage ? performance.now() - open.heardAt : 0;
    return {
      answered: open.answered,
      error: open.moved ? unavailable("the client has moved to another address") : (open.silent ?? error),
      silentForMs: silence >= (open.intervalMs ?? HEARTBEAT_MS) ? silence : 0,
      slow: open.slow,
      moved: open.moved,
    };
  }

  /** Not all streams of a replica at once. */
  #followLater(open: Open): void {
    open.move ??= setTimeout(() => {
      open.moved = true;
      open.ending.abort();
    }, Math.random() * LONGEST_MOVE_DELAY_MS).unref();
  }

  #renewLater(open: Open, token: string, afterMs = askAgainAfterMs(token, Date.now())): void {
    open.renewal = setTimeout(() => this.#renew(open, token), afterMs).unref();
  }

  /** Sends the token as it is now, if it is another one than the stream has. */
  async #renew(open: Open, token: string): Promise<void> {
    let next: string | undefined;
    try {
      next = await this.#calls.nextToken();
    } catch (error) {
      this.#calls.log.warn(ConnectError.from(error).rawMessage, "PAUSEWATCH_TOKEN");
    }
    if (open !== this.#open) return;
    if (next === undefined || !open.answered) {
      this.#renewLater(open, token, TRY_AGAIN_MS);
      return;
    }
    if (next !== token) {
      this.#requests.renew(next);
      this.#send();
    }
    this.#renewLater(open, next);
  }

  #receive(open: Open, { event }: WatchResponse): void {
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
        this.#requests.answered();
        break;
      case "refusal":
        this.#refused(open, event.value);
        break;
      case "heartbeat": {
        const { interval } = event.value;
        const everyMs = interval === undefined ? 0 : durationOf(interval);
        open.intervalMs = everyMs > 0 ? Math.max(everyMs, LEAST_HEARTBEAT_MS) : undefined;
        this.#watchOver(open);
        return;
      }
      default:
        // An event of a newer server.
        return;
    }
    open.answered = true;
    this.#answerMs = ANSWER_MS;
    if (this.#requests.isComplete) this.#listener.complete();
    this.#send();
  }

  #refused(open: Open, refusal: Refusal): void {
    const error = refusalError(refusal);
    const wait = (error instanceof LimitExceededError ? error.retryAfterMs : undefined) ?? TRY_AGAIN_MS;
    const lost = this.#requests.refused(refusal.threadIds, performance.now() + wait);
    if (lost.length > 0) this.#listener.refused(lost, error);
    // What only a first request can say was refused with it.
    if (open.requests === 1 && Object.values(this.#options).includes(true)) throw error;
  }

  /** Sees to it that the stream ends when it has been silent for too long. */
  #watchOver(open: Open): void {
    clearTimeout(open.watchdog);
    const now = performance.now();
    const due = open.readerIsSlow ? now + SILENCE_MS : this.#deadAt(open, now);
    open.watchdog = setTimeout(() => this.#endIfDead(open, due), Math.max(due - now, 0)).unref();
  }

  #endIfDead(open: Open, due: number): void {
    const now = performance.now();
    // What came while the program was held up is not read yet.
    if (now > due + HELD_UP_MS) open.heardAt = Math.max(open.heardAt, now - HELD_UP_MS);
    const deadAt = this.#deadAt(open, now);
    if (open.readerIsSlow || now < deadAt) {
      this.#watchOver(open);
      return;
    }
    const confirming = this.#requests.confirmingSince(now) !== undefined;
    open.silent = unavailable(`the watch was silent for ${Math.round(deadAt - open.heardAt)} ms`);
    open.slow = open.answered && deadAt - open.heardAt < longestSilenceMs(open);
    if (confirming) this.#answerMs = Math.min(this.#answerMs * 2, SILENCE_MS);
    open.ending.abort();
    // The connection may be dead with it.
    this.#calls.reconnect();
  }

  /** When the stream is dead, unless something comes. */
  #deadAt(open: Open, now: number): number {
    const firstMs = Math.min(this.#calls.deadlineMs, this.#calls.route.several ? NO_ANSWER_MS : SILENCE_MS);
    const silence = open.answered ? longestSilenceMs(open) : Math.min(firstMs, longestSilenceMs(open));
    const since = this.#requests.confirmingSince(now);
    if (since === undefined) return open.heardAt + silence;
    const answer = open.answered ? this.#answerMs : Math.max(this.#answerMs, FIRST_ANSWER_MS);
    return Math.min(open.heardAt + silence, Math.max(open.heardAt, since) + answer);
  }
}

/** That of a stream that works. */
function longestSilenceMs(open: Open): number {
  return open.intervalMs === undefined ? SILENCE_MS : open.intervalMs * 2.5;
}
