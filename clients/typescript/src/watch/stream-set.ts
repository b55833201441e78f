/**
 * Which stream serves which thread, over a set of threads that may change while it is watched.
 *
 * A stream cannot add threads. So threads added while a stream is being opened wait for the next one and share it.
 * A new stream also takes over every stream that is not larger than itself, and keeps the old ones until its own snapshot is complete: adding N
 * threads one by one sends each id about log2(N) times. When nothing was added for a while, streams are brought together, so that up to 10,000
 * threads share one; more are spread over several.
 *
 * 1. Each thread belongs to one stream at a time, so its states arrive in order.
 * 2. Replacing a stream leaves no gap: the old stream serves until the new one has sent its whole snapshot.
 * 3. Every disconnection is reported, and the first state after it carries `gap`; `pausedTotalMs` says what was missed.
 * 4. A call that asks for a state may overtake the stream: older states of that thread on the stream are then dropped.
 */
import type { Calls } from "../calls.js";
import { CallError } from "../errors.js";
import type { PauseState } from "../messages.js";
import { isNoNews, type Version, versionOf } from "../version.js";
import type { EventQueue, Told } from "./queue.js";
import { type Listener, runStream } from "./stream.js";

/** The most thread ids that one stream may name. */
const MOST_IDS = 10_000;
/** A stream with more removed threads than live ones is replaced, unless it names no more than this many. */
const SMALL = 32;
/** How long nothing is added before streams are brought together. */
const SETTLE_MS = 2_000;

interface Thread {
  stream: WatchStream | undefined;
  version: Version | undefined;
  gap: boolean;
  readonly told: Told;
}

/** One stream, and what is known of it. */
class WatchStream {
  readonly stop = new AbortController();
  /** How many threads belong to it. */
  live = 0;
  complete = false;
  broken = false;
  /** Mostly dead ids: to be opened anew. */
  worn = false;
  readonly threadIds: readonly string[];
  /** The streams that it takes over when its snapshot is complete, and what it has told of their threads until then. */
  replaces: readonly WatchStream[];
  readonly heldBack = new Map<string, PauseState>();

  constructor(threadIds: readonly string[], replaces: readonly WatchStream[]) {
    this.threadIds = threadIds;
    this.replaces = replaces;
  }
}

/** How the streams of a watch are opened, and who receives their events. */
export interface StreamSetOptions {
  readonly calls: Calls;
  /** Every thread instead of a set of them. */
  readonly all: boolean;
  readonly includeElicitations: boolean;
  /** Where what there is to tell goes. */
  readonly queue: EventQueue;
  /** Called after there was something for the queue. */
  readonly onNews: () => void;
  /** Resolves when there is room in the queue again. */
  readonly room: () => Promise<void> | undefined;
}

export class StreamSet {
  readonly #options: StreamSetOptions;
  readonly #threads = new Map<string, Thread>();
  readonly #streams = new Set<WatchStream>();
  /** The stream whose first snapshot is awaited. One at a time: what is added meanwhile shares the next. */
  #opening: WatchStream | undefined;
  /** Added, and on no stream yet. */
  readonly #waiting = new Set<string>();
  /** Of all threads: paused when the stream broke, and not in the new snapshot. To be asked for one by one. */
  #missing: string[] = [];
  #asking = false;
  /** Of all threads: the versions that asking has brought since the last break. */
  readonly #asked = new Map<string, Version>();
  #toldComplete = false;
  #state: "new" | "running" | "stopped" = "new";
  #planned = false;
  #settling: NodeJS.Timeout | undefined;
  #merging = false;

  constructor(options: StreamSetOptions) {
    this.#options = options;
  }

  start(): void {
    this.#state = "running";
    this.#plan();
  }

  stop(): void {
    this.#state = "stopped";
    clearTimeout(this.#settling);
    for (const stream of this.#streams) this.#drop(stream);
  }

  /** Adds a thread, whose id is valid, unless it is there. */
  add(threadId: string): void {
    if (this.#options.all || this.#threads.has(threadId)) return;
    this.#threads.set(threadId, { stream: undefined, version: undefined, gap: true, told: { version: undefined } });
    this.#waiting.add(threadId);
    this.#toldComplete = false;
    this.#settling?.refresh();
    this.#plan();
  }

  remove(threadId: string): void {
    if (this.#options.all) return;
    const stream = this.#threads.get(threadId)?.stream;
    this.#threads.delete(threadId);
    this.#waiting.delete(threadId);
    if (stream === undefined) return;
    stream.live--;
    if (stream.live === 0 && stream.replaces.length === 0) {
      this.#drop(stream);
    } else if (stream.threadIds.length > SMALL && stream.live < stream.threadIds.length / 2) {
      stream.worn = true;
    }
    this.#plan();
  }

  /** Opens a stream soon: what is added in one go shares it. */
  #plan(): void {
    if (this.#planned) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      if (this.#state === "running") this.#openNext();
    });
  }

  /** Opens a stream for what waits, or to bring others together, and lets it take over what it may. */
  #openNext(): void {
    if (this.#opening !== undefined || (this.#options.all && this.#streams.size > 0)) return;
    const threadIds: string[] = [];
    for (const threadId of this.#waiting) {
      if (threadIds.length === MOST_IDS) break;
      this.#waiting.delete(threadId);
      threadIds.push(threadId);
    }
    const own = threadIds.length;
    const replaces: WatchStream[] = [];
    for (const other of [...this.#streams].filter((stream) => stream.complete).sort((a, b) => a.live - b.live)) {
      const takes = this.#merging || other.worn || other.live <= threadIds.length;
      if (!takes || threadIds.length + other.live > MOST_IDS) continue;
      threadIds.push(...other.threadIds.filter((threadId) => this.#threads.get(threadId)?.stream === other));
      replaces.push(other);
    }
    this.#merging = false;
    // Replacing a stream that is neither worn nor joined by another changes nothing.
    if (own === 0 && replaces.length < 2 && !replaces[0]?.worn && !this.#options.all) return;
    const stream = new WatchStream(threadIds, replaces);
    for (const threadId of threadIds.slice(0, own)) {
      const thread = this.#threads.get(threadId);
      if (thread !== undefined) thread.stream = stream;
    }
    stream.live = own;
    this.#streams.add(stream);
    this.#opening = stream;
    const { calls, includeElicitations } = this.#options;
    void runStream(calls, threadIds, includeElicitations, this.#listenerOf(stream), stream.stop.signal);
  }

  #listenerOf(stream: WatchStream): Listener {
    // A state from a stream that was dropped is ignored.
    const ifKept = (action: () => void) => {
      if (!this.#streams.has(stream)) return;
      action();
      void this.#askForMissing();
      this.#options.onNews();
    };
    return {
      state: (state) => ifKept(() => (this.#options.all ? this.#tellAny(stream, state) : this.#take(stream, state))),
      complete: () => ifKept(() => this.#complete(stream)),
      broken: (error, silentForMs) => ifKept(() => this.#broken(stream, error, silentForMs)),
      alive: () => ifKept(() => undefined),
      room: this.#options.room,
    };
  }

  #take(stream: WatchStream, state: PauseState): void {
    stream.broken = false;
    const owner = this.#threads.get(state.threadId)?.stream;
    if (owner === stream) this.#tell(state);
    else if (owner !== undefined && stream.replaces.includes(owner)) stream.heldBack.set(state.threadId, state);
  }

  /** Tells a state of a thread in the set, unless it is no news. */
  #tell(state: PauseState): void {
    const thread = this.#threads.get(state.threadId);
    if (thread === undefined) return;
    // A new stream may be behind the old one that it takes over.
    const version = versionOf(state);
    if (!thread.gap && isNoNews(version, thread.version)) return;
    this.#options.queue.state(state, thread.gap, thread.told);
    thread.gap = false;
    thread.version = version;
  }

  /** In a watch of all: tells a state, and remembers the thread only while it is paused. */
  #tellAny(stream: WatchStream, state: PauseState): void {
    stream.broken = false;
    const { threadId, paused } = state;
    if (isNoNews(versionOf(state), this.#asked.get(threadId))) return;
    if (!this.#threads.has(threadId)) {
      this.#threads.set(threadId, {
        stream,
        version: undefined,
        gap: !stream.complete,
        told: { version: undefined },
      });
    }
    this.#tell(state);
    if (!paused) this.#threads.delete(threadId);
  }

  #complete(stream: WatchStream): void {
    stream.complete = true;
    stream.broken = false;
    for (const old of stream.replaces) {
      this.#drop(old);
      for (const threadId of old.threadIds) {
        const thread = this.#threads.get(threadId);
        if (thread?.stream !== old) continue;
        thread.stream = stream;
        stream.live++;
      }
    }
    stream.replaces = [];
    for (const state of stream.heldBack.values()) this.#tell(state);
    stream.heldBack.clear();
    if (this.#opening === stream) this.#opening = undefined;
    if (stream.live === 0 && !this.#options.all) this.#drop(stream);
    // A snapshot of everything names the paused threads only: what it does not name was resumed in the gap.
    if (this.#options.all) this.#missing = [...this.#threads].flatMap(([threadId, { gap }]) => (gap ? [threadId] : []));
    this.#tellComplete();
    this.#settle();
    this.#plan();
  }

  #settle(): void {
    clearTimeout(this.#settling);
    if (this.#streams.size < 2) return;
    this.#settling = setTimeout(() => {
      this.#merging = true;
      this.#plan();
    }, SETTLE_MS).unref();
  }

  #tellComplete(): void {
    const streams = [...this.#streams].every((stream) => stream.complete || (stream.live === 0 && !this.#options.all));
    if (this.#toldComplete || this.#waiting.size > 0 || !streams || this.#missing.length > 0) return;
    this.#toldComplete = true;
    this.#options.queue.snapshotComplete();
  }

  #broken(stream: WatchStream, error: CallError, silentForMs: number): void {
    stream.complete = false;
    stream.heldBack.clear();
    const first = !stream.broken;
    stream.broken = true;
    const threadIds: string[] = [];
    for (const [threadId, thread] of this.#threads) {
      if (!this.#options.all && thread.stream !== stream) continue;
      thread.gap = true;
      threadIds.push(threadId);
    }
    const affected = this.#options.all || threadIds.length > 0;
    if (!error.transient && this.#opening === stream) {
      // It keeps retrying for its own threads, but no other thread waits for it.
      this.#opening = undefined;
      for (const old of stream.replaces) old.worn = false;
      stream.replaces = [];
      if (!affected) this.#drop(stream);
    }
    if (affected && first) {
      this.#toldComplete = false;
      this.#missing = [];
      this.#asked.clear();
      this.#options.queue.disconnected(this.#options.all ? undefined : threadIds, error, silentForMs);
    }
    this.#plan();
  }

  #drop(stream: WatchStream): void {
    this.#streams.delete(stream);
    if (this.#opening === stream) this.#opening = undefined;
    stream.stop.abort();
  }

  /** Asks for the threads that a snapshot of everything left out, as far as that works now; the next message tries again. */
  async #askForMissing(): Promise<void> {
    if (this.#asking || this.#missing.length === 0) return;
    this.#asking = true;
    while (this.#missing.length > 0) {
      const missing = this.#missing;
      const threadId = missing.at(-1) as string;
      const answer = await this.#options.calls.get(threadId).catch((error: CallError) => error);
      if (this.#state === "stopped" || (answer instanceof CallError && answer.transient)) break;
      // A break meanwhile: the answer may be older than what is missing now.
      if (this.#missing !== missing) continue;
      missing.pop();
      // Without a gap, or removed: the stream has delivered a newer state and continues.
      if (answer instanceof CallError || !this.#threads.get(threadId)?.gap) continue;
      this.#asked.set(threadId, versionOf(answer));
      this.#tell(this.#options.includeElicitations ? answer : { ...answer, elicitations: [] });
      if (!answer.paused) this.#threads.delete(threadId);
    }
    this.#asking = false;
    this.#tellComplete();
    this.#options.onNews();
  }
}
