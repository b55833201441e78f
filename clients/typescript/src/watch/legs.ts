/**
 * Which stream serves which thread, over a set of threads that may change while it is watched.
 *
 * A stream cannot be told to watch one more thread. So what is added while a stream (a *leg*) is being opened waits and shares the next one.
 * A new leg also takes over every leg that is not larger than itself, and keeps the old ones until its own snapshot is complete: adding N
 * threads one by one sends each id about log2(N) times. When nothing was added for a while, legs are brought together, so that up to 10,000
 * threads share one; more are spread over several.
 *
 * 1. Each thread belongs to one leg at a time, so its states come in order.
 * 2. A change of legs is no gap: the old leg serves until the new one has told everything.
 * 3. Every break is told, and the first state after it carries `gap`; `pausedTotalMs` says what was missed.
 * 4. An answer to a question may overtake the stream: what the stream still tells of that thread is told only from there on.
 */
import type { Calls } from "../calls.js";
import { CallError } from "../errors.js";
import type { PauseState } from "../messages.js";
import { type Listener, runLeg } from "./leg.js";
import type { EventQueue, Told } from "./queue.js";

/** The most thread ids that one stream may name. */
const MOST_IDS = 10_000;
/** A leg with more dead ids than live ones is opened anew, unless it is as small as this. */
const SMALL = 32;
/** How long nothing is added before legs are brought together. */
const SETTLE_MS = 2_000;

interface Thread {
  leg: Leg | undefined;
  revision: bigint | undefined;
  gap: boolean;
  readonly told: Told;
}

/** One stream, and what is known of it. */
class Leg {
  readonly stop = new AbortController();
  /** How many threads belong to it. */
  live = 0;
  complete = false;
  broken = false;
  /** Mostly dead ids: to be opened anew. */
  worn = false;
  readonly threadIds: readonly string[];
  /** The legs that it takes over when its snapshot is complete, and what it has told of their threads until then. */
  replaces: readonly Leg[];
  readonly heldBack = new Map<string, PauseState>();

  constructor(threadIds: readonly string[], replaces: readonly Leg[]) {
    this.threadIds = threadIds;
    this.replaces = replaces;
  }
}

/** How the legs of a watch are opened, and whom they tell. */
export interface LegsOptions {
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

export class Legs {
  readonly #options: LegsOptions;
  readonly #threads = new Map<string, Thread>();
  readonly #legs = new Set<Leg>();
  /** The leg whose first snapshot is awaited. One at a time: what is added meanwhile shares the next. */
  #opening: Leg | undefined;
  /** Added, and on no leg yet. */
  readonly #waiting = new Set<string>();
  /** Of all threads: paused when the stream broke, and not in the new snapshot. To be asked for one by one. */
  #missing: string[] = [];
  #asking = false;
  /** Of all threads: the revisions that asking has brought since the last break. */
  readonly #asked = new Map<string, bigint>();
  #toldComplete = false;
  #state: "new" | "running" | "stopped" = "new";
  #planned = false;
  #settling: NodeJS.Timeout | undefined;
  #merging = false;

  constructor(options: LegsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#state = "running";
    this.#plan();
  }

  stop(): void {
    this.#state = "stopped";
    clearTimeout(this.#settling);
    for (const leg of this.#legs) this.#drop(leg);
  }

  /** Adds a thread, whose id is valid, unless it is there. */
  add(threadId: string): void {
    if (this.#options.all || this.#threads.has(threadId)) return;
    this.#threads.set(threadId, { leg: undefined, revision: undefined, gap: true, told: { revision: undefined } });
    this.#waiting.add(threadId);
    this.#toldComplete = false;
    this.#settling?.refresh();
    this.#plan();
  }

  remove(threadId: string): void {
    if (this.#options.all) return;
    const leg = this.#threads.get(threadId)?.leg;
    this.#threads.delete(threadId);
    this.#waiting.delete(threadId);
    if (leg === undefined) return;
    leg.live--;
    if (leg.live === 0 && leg.replaces.length === 0) {
      this.#drop(leg);
    } else if (leg.threadIds.length > SMALL && leg.live < leg.threadIds.length / 2) {
      leg.worn = true;
    }
    this.#plan();
  }

  /** Opens a leg soon: what is added in one go shares it. */
  #plan(): void {
    if (this.#planned) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      if (this.#state === "running") this.#openNext();
    });
  }

  /** Opens a leg for what waits, or to bring others together, and lets it take over what it may. */
  #openNext(): void {
    if (this.#opening !== undefined || (this.#options.all && this.#legs.size > 0)) return;
    const threadIds: string[] = [];
    for (const threadId of this.#waiting) {
      if (threadIds.length === MOST_IDS) break;
      this.#waiting.delete(threadId);
      threadIds.push(threadId);
    }
    const own = threadIds.length;
    const replaces: Leg[] = [];
    for (const other of [...this.#legs].filter((leg) => leg.complete).sort((a, b) => a.live - b.live)) {
      const takes = this.#merging || other.worn || other.live <= threadIds.length;
      if (!takes || threadIds.length + other.live > MOST_IDS) continue;
      threadIds.push(...other.threadIds.filter((threadId) => this.#threads.get(threadId)?.leg === other));
      replaces.push(other);
    }
    this.#merging = false;
    // To open a leg anew that is neither worn nor joined by another would be of no use.
    if (own === 0 && replaces.length < 2 && !replaces[0]?.worn && !this.#options.all) return;
    const leg = new Leg(threadIds, replaces);
    for (const threadId of threadIds.slice(0, own)) {
      const thread = this.#threads.get(threadId);
      if (thread !== undefined) thread.leg = leg;
    }
    leg.live = own;
    this.#legs.add(leg);
    this.#opening = leg;
    const { calls, includeElicitations } = this.#options;
    void runLeg(calls, threadIds, includeElicitations, this.#listenerOf(leg), leg.stop.signal);
  }

  #listenerOf(leg: Leg): Listener {
    // What an abandoned leg had still sent is nobody's.
    const ifKept = (action: () => void) => {
      if (!this.#legs.has(leg)) return;
      action();
      void this.#askForMissing();
      this.#options.onNews();
    };
    return {
      state: (state) => ifKept(() => (this.#options.all ? this.#tellAny(leg, state) : this.#take(leg, state))),
      complete: () => ifKept(() => this.#complete(leg)),
      broken: (error) => ifKept(() => this.#broken(leg, error)),
      alive: () => ifKept(() => undefined),
      room: this.#options.room,
    };
  }

  #take(leg: Leg, state: PauseState): void {
    leg.broken = false;
    const owner = this.#threads.get(state.threadId)?.leg;
    if (owner === leg) this.#tell(state);
    else if (owner !== undefined && leg.replaces.includes(owner)) leg.heldBack.set(state.threadId, state);
  }

  /** Tells a state of a thread in the set, unless it is no news. */
  #tell(state: PauseState): void {
    const thread = this.#threads.get(state.threadId);
    if (thread === undefined) return;
    // A new leg may be behind the old one that it takes over.
    if (!thread.gap && thread.revision !== undefined && thread.revision >= state.revision) return;
    this.#options.queue.state(state, thread.gap, thread.told);
    thread.gap = false;
    thread.revision = state.revision;
  }

  /** In a watch of all: tells a state, and remembers the thread only while it is paused. */
  #tellAny(leg: Leg, state: PauseState): void {
    leg.broken = false;
    const { threadId, paused, revision } = state;
    const asked = this.#asked.get(threadId);
    if (asked !== undefined && revision <= asked) return;
    if (!this.#threads.has(threadId)) {
      this.#threads.set(threadId, { leg, revision: undefined, gap: !leg.complete, told: { revision: undefined } });
    }
    this.#tell(state);
    if (!paused) this.#threads.delete(threadId);
  }

  #complete(leg: Leg): void {
    leg.complete = true;
    leg.broken = false;
    for (const old of leg.replaces) {
      this.#drop(old);
      for (const threadId of old.threadIds) {
        const thread = this.#threads.get(threadId);
        if (thread?.leg !== old) continue;
        thread.leg = leg;
        leg.live++;
      }
    }
    leg.replaces = [];
    for (const state of leg.heldBack.values()) this.#tell(state);
    leg.heldBack.clear();
    if (this.#opening === leg) this.#opening = undefined;
    if (leg.live === 0 && !this.#options.all) this.#drop(leg);
    // A snapshot of everything names the paused threads only: what it does not name was resumed in the gap.
    if (this.#options.all) this.#missing = [...this.#threads].flatMap(([threadId, { gap }]) => (gap ? [threadId] : []));
    this.#tellComplete();
    this.#settle();
    this.#plan();
  }

  #settle(): void {
    clearTimeout(this.#settling);
    if (this.#legs.size < 2) return;
    this.#settling = setTimeout(() => {
      this.#merging = true;
      this.#plan();
    }, SETTLE_MS).unref();
  }

  #tellComplete(): void {
    const legs = [...this.#legs].every((leg) => leg.complete || (leg.live === 0 && !this.#options.all));
    if (this.#toldComplete || this.#waiting.size > 0 || !legs || this.#missing.length > 0) return;
    this.#toldComplete = true;
    this.#options.queue.snapshotComplete();
  }

  #broken(leg: Leg, error: CallError): void {
    leg.complete = false;
    leg.heldBack.clear();
    const first = !leg.broken;
    leg.broken = true;
    const threadIds: string[] = [];
    for (const [threadId, thread] of this.#threads) {
      if (!this.#options.all && thread.leg !== leg) continue;
      thread.gap = true;
      threadIds.push(threadId);
    }
    const affected = this.#options.all || threadIds.length > 0;
    if (!error.transient && this.#opening === leg) {
      // It goes on trying for its own threads, but nobody else waits for it.
      this.#opening = undefined;
      for (const old of leg.replaces) old.worn = false;
      leg.replaces = [];
      if (!affected) this.#drop(leg);
    }
    if (affected && first) {
      this.#toldComplete = false;
      this.#missing = [];
      this.#asked.clear();
      this.#options.queue.disconnected(this.#options.all ? undefined : threadIds, error);
    }
    this.#plan();
  }

  #drop(leg: Leg): void {
    this.#legs.delete(leg);
    if (this.#opening === leg) this.#opening = undefined;
    leg.stop.abort();
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
      // Without a gap, or forgotten: the stream has told more since, and goes on by itself.
      if (answer instanceof CallError || !this.#threads.get(threadId)?.gap) continue;
      this.#asked.set(threadId, answer.revision);
      this.#tell(this.#options.includeElicitations ? answer : { ...answer, elicitations: [] });
      if (!answer.paused) this.#threads.delete(threadId);
    }
    this.#asking = false;
    this.#tellComplete();
    this.#options.onNews();
  }
}
