/**
 * A watch as its reader sees it: an iteration over what happens, across lost connections.
 *
 * 1. Memory is bounded by the set of threads, and for a watch of everything by `BACKLOG`: beyond that the stream is not read.
 * 2. A closed watch has no stream and no waiting reader.
 * 3. Every disconnection is reported, and the first state after it carries `gap`; `pausedTotalMs` says what was missed.
 * 4. A watch of all threads remembers those that are paused, so that a new stream tells what was resumed in a gap.
 */
import type { Calls } from "../calls.js";
import type { CallError } from "../errors.js";
import { checkThreadId } from "../fields.js";
import type { PauseState } from "../messages.js";
import { isNoNews, type Version, versionOf } from "../version.js";
import type { WatchEvent } from "./event.js";
import { EventQueue, type Told } from "./queue.js";
import { type Listener, WatchStream } from "./stream.js";

/** Unread events after which the stream is not read any more. */
const BACKLOG = 10_000;

/** What a watch is to see. */
export interface WatchOptions {
  /** States come with their open elicitations. Default: without. */
  readonly includeElicitations?: boolean;
  /** It shows pauses to people, and freezes nothing: it does not count among the `watchers` of a thread. Default: it counts. */
  readonly observer?: boolean;
  /** Ends the watch: the iteration throws the signal's reason. */
  readonly signal?: AbortSignal;
}

interface Thread {
  version: Version | undefined;
  /** Changes may be missed before its next state. */
  gap: boolean;
  /** It was told to be disconnected, and nothing was heard since. */
  isCut: boolean;
  readonly told: Told;
}

interface Reader {
  readonly resolve: (event: IteratorResult<WatchEvent, undefined>) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * The states of a set of threads, across lost connections, until it is closed. Made by `Client.watch`; iterate over it once.
 *
 * A break of the connection, or 30 s of silence (two heartbeats), is reported as `disconnected`; then the watch reconnects, after 50 ms at
 * first, after 3 to 6 s at most. A reader that is slow gets the latest state of each thread, not all.
 *
 * It begins with the first `next()`, and keeps the process alive until it is closed: by leaving `for await`, by {@link close}, at the end of
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
  /** For the stream, which waits until there is room in the queue. */
  #room: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;
  #state: "new" | "running" | "closed" = "new";
  /** The present stream has told every thread. */
  #isComplete = false;
  /** Of all threads: told to be disconnected. */
  #isCut = false;

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
   * Watches one thread more. Nothing happens if it is watched already, or all are.
   *
   * @throws {InvalidFieldError} No thread can have this id.
   */
  add(threadId: string): void {
    checkThreadId(threadId);
    if (this.#isOfAll || this.#threads.has(threadId)) return;
    this.#threads.set(threadId, newThread(true));
    this.#isComplete = false;
    this.#stream.add(threadId);
  }

  /** Watches one thread less. Events of it that wait to be read may still come. */
  remove(threadId: string): void {
    if (this.#isOfAll || !this.#threads.delete(threadId)) return;
    this.#stream.remove(threadId);
  }

  /**
   * The next event. Waits until there is one; done once the watch is closed.
   *
   * @throws The reason of the watch's signal, when it is aborted.
   */
  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    if (this.#state === "new") this.#start();
    return new Promise((resolve, reject) => {
      this.#readers.push({ resolve, reject });
      if (this.#state === "closed") this.#dismiss();
      else this.#deliver();
    });
  }

  /** Closes the watch and its streams. Calling it again does nothing. */
  close(): void {
    this.#state = "closed";
    this.#closing.removeEventListener("abort", this.#close);
    this.#signal?.removeEventListener("abort", this.#close);
    this.#stream.close();
    this.#room?.resolve();
    this.#dismiss();
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

  readonly #close = () => this.close();

  #start(): void {
    this.#state = "running";
    if (this.#closing.aborted || this.#signal?.aborted) {
      this.close();
      return;
    }
    this.#closing.addEventListener("abort", this.#close);
    this.#signal?.addEventListener("abort", this.#close);
    this.#stream.start();
  }

  /** A method of its own: none of these is for the reader to call. */
  #listener(): Listener {
    const telling =
      <Arguments extends unknown[]>(tell: (...event: Arguments) => void) =>
      (...event: Arguments) => {
        if (this.#state === "closed") return;
        tell(...event);
        this.#deliver();
      };
    return {
      threadIds: () => this.#threads.keys(),
      state: telling((state: PauseState) => this.#take(state)),
      confirmed: () => undefined,
      complete: telling(() => this.#complete()),
      refused: telling((threadIds: readonly string[], error: CallError) => this.#refused(threadIds, error)),
      broken: telling((error: CallError, silentForMs: number) => this.#broken(error, silentForMs)),
      room: () => this.#roomLeft(),
    };
  }

  #take(state: PauseState): void {
    const { threadId } = state;
    let thread = this.#threads.get(threadId);
    if (thread === undefined) {
      if (!this.#isOfAll) return;
      thread = newThread(!this.#isComplete);
      this.#threads.set(threadId, thread);
    }
    this.#isCut = false;
    thread.isCut = false;
    if (this.#isOfAll && !state.paused) this.#threads.delete(threadId);
    const version = versionOf(state);
    if (!thread.gap && isNoNews(version, thread.version)) return;
    this.#queue.state(state, thread.gap, thread.told);
    thread.gap = false;
    thread.version = version;
  }

  #complete(): void {
    this.#isCut = false;
    if (!this.#isComplete) this.#queue.snapshotComplete();
    this.#isComplete = true;
  }

  #refused(threadIds: readonly string[], error: CallError): void {
    if (this.#isOfAll) for (const threadId of threadIds) this.#threads.delete(threadId);
    else this.#cut(threadIds, error, 0);
  }

  #broken(error: CallError, silentForMs: number): void {
    this.#isComplete = false;
    for (const thread of this.#threads.values()) thread.gap = true;
    if (!this.#isOfAll) this.#cut([...this.#threads.keys()], error, silentForMs);
    else if (!this.#isCut) this.#queue.disconnected(undefined, error, silentForMs);
    this.#isCut = true;
  }

  /** Tells that these are not heard any more, each of them once. */
  #cut(threadIds: readonly string[], error: CallError, silentForMs: number): void {
    const news = threadIds.filter((threadId) => this.#threads.get(threadId)?.isCut === false);
    for (const threadId of news) {
      const thread = this.#threads.get(threadId);
      if (thread !== undefined) thread.isCut = true;
    }
    if (news.length > 0) this.#queue.disconnected(news, error, silentForMs);
  }

  #deliver(): void {
    while (this.#readers.length > 0) {
      const value = this.#queue.shift();
      if (value === undefined) break;
      this.#readers.shift()?.resolve({ done: false, value });
    }
    if (this.#room !== undefined && this.#queue.size < BACKLOG) {
      this.#room.resolve();
      this.#room = undefined;
    }
  }

  /** Tells those who wait that nothing comes any more. */
  #dismiss(): void {
    for (const { resolve, reject } of this.#readers.splice(0)) {
      if (this.#signal?.aborted) reject(this.#signal.reason);
      else resolve({ done: true, value: undefined });
    }
  }

  #roomLeft(): Promise<void> | undefined {
    if (this.#queue.size < BACKLOG || this.#state === "closed") return undefined;
    if (this.#room === undefined) {
      let resolve = () => {};
      const promise = new Promise<void>((resolved) => {
        resolve = resolved;
      });
      this.#room = { promise, resolve };
    }
    return this.#room.promise;
  }
}

function newThread(gap: boolean): Thread {
  return { version: undefined, gap, isCut: false, told: { version: undefined } };
}
