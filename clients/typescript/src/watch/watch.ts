/**
 * A watch as its reader sees it: an iteration over what happens, across lost connections.
 *
 * 1. Memory is bounded by the set of threads, and for a watch of everything by `BACKLOG`: beyond that the streams are not read.
 * 2. A closed watch has no stream and no waiting reader.
 */
import type { Calls } from "../calls.js";
import { checkThreadId } from "../fields.js";
import type { WatchEvent } from "./event.js";
import { EventQueue } from "./queue.js";
import { StreamSet } from "./stream-set.js";

/** Unread events after which the streams are not read any more. */
const BACKLOG = 10_000;

/** What a watch is to see. */
export interface WatchOptions {
  /** States come with their open elicitations. Default: without. */
  readonly includeElicitations?: boolean;
  /** Ends the watch: the iteration throws the signal's reason. */
  readonly signal?: AbortSignal;
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
  readonly #streams: StreamSet;
  readonly #queue = new EventQueue();
  readonly #readers: Reader[] = [];
  readonly #closing: AbortSignal;
  readonly #signal: AbortSignal | undefined;
  /** For the streams, which wait until there is room in the queue. */
  #room: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;
  #state: "new" | "running" | "closed" = "new";

  /** @internal */
  constructor(calls: Calls, threadIds: Iterable<string> | undefined, options: WatchOptions = {}) {
    const { includeElicitations = false, signal } = options;
    this.#closing = calls.closing;
    this.#signal = signal;
    this.#streams = new StreamSet({
      calls,
      all: threadIds === undefined,
      includeElicitations,
      queue: this.#queue,
      onNews: () => this.#deliver(),
      room: () => this.#roomLeft(),
    });
    for (const threadId of threadIds ?? []) this.add(threadId);
  }

  /**
   * Watches one thread more. Nothing happens if it is watched already, or all are.
   *
   * @throws {InvalidFieldError} No thread can have this id.
   */
  add(threadId: string): void {
    checkThreadId(threadId);
    this.#streams.add(threadId);
  }

  /** Watches one thread less. Events of it that wait to be read may still come. */
  remove(threadId: string): void {
    this.#streams.remove(threadId);
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
    this.#streams.stop();
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
    this.#streams.start();
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
