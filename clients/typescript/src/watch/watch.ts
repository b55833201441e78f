/**
 * The reader's side of a watch: an iteration over events, across reconnects.
 *
 * 1. Memory is bounded by the set of threads, and for a watch of all threads by `BACKLOG`: beyond that the stream is not read.
 * 2. A closed watch has no stream and no waiting reader.
 * 3. Every disconnect is reported, and the first state after it carries `gap`; `pausedTotalMs` covers what was missed.
 * 4. A watch of all threads adds those that were paused to each new stream, so that a resume in a gap is reported too.
 */
import { onAbort } from "../abort.js";
import type { Calls } from "../calls.js";
import type { CallError } from "../errors.js";
import { checkThreadId } from "../fields.js";
import type { PauseState } from "../messages.js";
import { isNewer, type Version, versionOf } from "../version.js";
import type { WatchEvent } from "./event.js";
import { EventQueue, type Reported } from "./queue.js";
import { type Listener, WatchStream } from "./stream.js";

/** The number of unread events at which a watch stops reading its stream. */
const BACKLOG = 10_000;

/** The options of a watch. */
export interface WatchOptions {
  /** Adds the open elicitations to the states. Default: false. */
  readonly includeElicitations?: boolean;
  /**
   * The watch only shows pauses to people, and freezes nothing: it does not count among the `watchers` of a thread. Default: false.
   */
  readonly observer?: boolean;
  /** Ends the watch when it is aborted: the iteration throws the signal's reason. */
  readonly signal?: AbortSignal;
}

interface Thread {
  version: Version | undefined;
  /** Changes may be missed before its next state. */
  gap: boolean;
  /** Whether its disconnect, or its refusal, was reported, and no state has arrived since. */
  disconnectReported: boolean;
  refusalReported: boolean;
  readonly reported: Reported;
}

interface Reader {
  readonly resolve: (event: IteratorResult<WatchEvent, undefined>) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * The states of a set of threads, across reconnects, until it is closed. Made by `Client.watch`; iterate over it once.
 *
 * A lost connection, or 30 s without a message (two heartbeats), is reported as `disconnected`; then the watch reconnects, after 50 to 100 ms
 * at first and 3 to 6 s at most. A slow reader gets the latest state of each thread, not every state.
 *
 * It starts with the first `next()`, and keeps the process alive until it is closed: by leaving `for await`, by {@link close}, at the end of
 * an `await using` block, by its signal, or with its client.
 */
export class Watch implements AsyncIterableIterator<WatchEvent, undefined>, AsyncDisposable {
  readonly #stream: WatchStream;
  readonly #isOfAll: boolean;
  readonly #threads = new Map<string, Thread>();
  readonly #queue = new EventQueue();
  readonly #readers: Reader[] = [];
  readonly #closing: AbortSignal;
  readonly #signal: AbortSignal | undefined;
  #stopListening: () => void = () => undefined;
  /** Why it could not start: its client was closed before. */
  #refused: { readonly error: unknown } | undefined;
  /** The stream waits for this until the queue has capacity. */
  #capacity: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;
  #state: "new" | "running" | "closed" = "new";
  /** Whether the states of all threads have arrived on the present stream. */
  #isComplete = false;
  /** In a watch of all threads: whether the disconnect was reported. */
  #disconnectReported = false;

  /** @internal */
  constructor(calls: Calls, threadIds: Iterable<string> | undefined, options: WatchOptions = {}) {
    const { includeElicitations = false, observer = false, signal } = options;
    this.#closing = calls.closing;
    this.#signal = signal;
    this.#isOfAll = threadIds === undefined;
    this.#stream = new WatchStream(
      calls,
      { allThreads: this.#isOfAll, includeElicitations, observer },
      this.#listener(),
    );
    for (const threadId of threadIds ?? []) this.add(threadId);
  }

  /**
   * Adds a thread. Does nothing if the thread, or every thread, is watched already.
   *
   * @throws {InvalidFieldError} The id is not valid; nothing changed.
   */
  add(threadId: string): void {
    checkThreadId(threadId);
    if (this.#isOfAll || this.#threads.has(threadId)) return;
    this.#threads.set(threadId, newThread(true));
    this.#isComplete = false;
    this.#stream.add(threadId);
  }

  /** Removes a thread. Unread events of it may still be returned. Does nothing if all threads are watched. */
  remove(threadId: string): void {
    if (this.#isOfAll || !this.#threads.delete(threadId)) return;
    this.#stream.remove(threadId);
  }

  /**
   * Waits for the next event; `done` once the watch is closed.
   *
   * @throws The reason of the watch's signal, if it is aborted.
   * @throws {CallError} The client was closed before the watch started.
   */
  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    if (this.#state === "new") this.#start();
    return new Promise((resolve, reject) => {
      this.#readers.push({ resolve, reject });
      if (this.#state === "closed") this.#endReaders();
      else this.#deliver();
    });
  }

  /** Closes the watch and its streams. Calling it again does nothing. */
  close(): void {
    this.#state = "closed";
    this.#stopListening();
    this.#stream.close();
    this.#capacity?.resolve();
    this.#endReaders();
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  #start(): void {
    this.#state = "running";
    if (this.#closing.aborted || this.#signal?.aborted) {
      if (this.#closing.aborted) this.#refused = { error: this.#closing.reason };
      this.close();
      return;
    }
    this.#stopListening = onAbort([this.#signal, this.#closing], () => this.close());
    this.#stream.start();
  }

  /** A separate object, so that these methods are not public. */
  #listener(): Listener {
    const thenDeliver =
      <Arguments extends unknown[]>(handle: (...event: Arguments) => void) =>
      (...event: Arguments) => {
        if (this.#state === "closed") return;
        handle(...event);
        this.#deliver();
      };
    return {
      threadIds: () => this.#threads.keys(),
      state: thenDeliver((state: PauseState) => this.#onState(state)),
      confirmed: () => undefined,
      complete: thenDeliver(() => this.#onComplete()),
      refused: thenDeliver((threadIds: readonly string[], error: CallError) => this.#onRefused(threadIds, error)),
      disconnected: thenDeliver((error: CallError, silentForMs: number) => this.#onDisconnected(error, silentForMs)),
      capacity: () => this.#waitForCapacity(),
    };
  }

  #onState(state: PauseState): void {
    const { threadId } = state;
    let thread = this.#threads.get(threadId);
    if (thread === undefined) {
      if (!this.#isOfAll) return;
      thread = newThread(!this.#isComplete);
      this.#threads.set(threadId, thread);
    }
    this.#disconnectReported = false;
    thread.disconnectReported = thread.refusalReported = false;
    if (this.#isOfAll && !state.paused) this.#threads.delete(threadId);
    const version = versionOf(state);
    if (!thread.gap && !isNewer(version, thread.version)) return;
    this.#queue.state(state, thread.gap, thread.reported);
    thread.gap = false;
    thread.version = version;
  }

  #onComplete(): void {
    this.#disconnectReported = false;
    if (!this.#isComplete) this.#queue.snapshotComplete();
    this.#isComplete = true;
  }

  #onRefused(threadIds: readonly string[], error: CallError): void {
    if (this.#isOfAll) for (const threadId of threadIds) this.#threads.delete(threadId);
    else this.#reportDisconnect(threadIds, error, 0, true);
  }

  #onDisconnected(error: CallError, silentForMs: number): void {
    this.#isComplete = false;
    for (const thread of this.#threads.values()) thread.gap = true;
    if (!this.#isOfAll) this.#reportDisconnect([...this.#threads.keys()], error, silentForMs);
    else if (!this.#disconnectReported) this.#queue.disconnected(undefined, error, silentForMs);
    this.#disconnectReported = true;
  }

  /**
   * Reports the disconnect, or the refusal, of those threads for which it was not reported yet. A refusal is reported
   * even after a disconnect.
   */
  #reportDisconnect(threadIds: readonly string[], error: CallError, silentForMs: number, refused = false): void {
    const disconnected = threadIds.filter((threadId) => {
      const thread = this.#threads.get(threadId);
      if (thread === undefined || thread.refusalReported || (thread.disconnectReported && !refused)) return false;
      thread.disconnectReported = true;
      thread.refusalReported = refused;
      return true;
    });
    if (disconnected.length > 0) this.#queue.disconnected(disconnected, error, silentForMs);
  }

  #deliver(): void {
    while (this.#readers.length > 0) {
      const value = this.#queue.shift();
      if (value === undefined) break;
      this.#readers.shift()?.resolve({ done: false, value });
    }
    if (this.#capacity !== undefined && this.#queue.size < BACKLOG) {
      this.#capacity.resolve();
      this.#capacity = undefined;
    }
  }

  /** Ends the waiting readers: no more events will arrive. */
  #endReaders(): void {
    for (const { resolve, reject } of this.#readers.splice(0)) {
      if (this.#signal?.aborted) reject(this.#signal.reason);
      else if (this.#refused !== undefined) reject(this.#refused.error);
      else resolve({ done: true, value: undefined });
    }
  }

  #waitForCapacity(): Promise<void> | undefined {
    if (this.#queue.size < BACKLOG || this.#state === "closed") return undefined;
    if (this.#capacity === undefined) {
      let resolve = () => {};
      const promise = new Promise<void>((resolved) => {
        resolve = resolved;
      });
      this.#capacity = { promise, resolve };
    }
    return this.#capacity.promise;
  }
}

function newThread(gap: boolean): Thread {
  return {
    version: undefined,
    gap,
    disconnectReported: false,
    refusalReported: false,
    reported: { version: undefined },
  };
}
