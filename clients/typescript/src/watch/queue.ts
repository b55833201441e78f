/**
 * The events of a watch that its reader has not read yet. Pure.
 *
 * 1. There is at most one state per thread, the latest, and one event of each other kind: a slow reader costs O(threads), never O(changes).
 * 2. If a state is replaced before it was read, `gap` and `changed` are still correct: both compare with the state that the reader read last.
 * 3. The newest state of a thread is never before a disconnect that is older: a state that arrives after a disconnect is read after it.
 */
import type { CallError } from "../errors.js";
import type { PauseState } from "../messages.js";
import { type Version, versionOf } from "../version.js";
import type { DisconnectedEvent, WatchEvent } from "./event.js";

/** The last state of a thread that the reader has read. */
export interface Reported {
  version: Version | undefined;
}

interface StateEntry {
  state: PauseState;
  gap: boolean;
  readonly reported: Reported;
  /** A disconnect of its thread is queued behind it. */
  overtaken: boolean;
}

type Entry = StateEntry | Omit<DisconnectedEvent, "type"> | "snapshotComplete";

/** These keys cannot be those of threads, which have a prefix. */
const DISCONNECTED = "disconnected";
const COMPLETE = "snapshotComplete";

export class EventQueue {
  /** In the order in which they will be read. */
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  state(state: PauseState, gap: boolean, reported: Reported): void {
    const key = keyOf(state.threadId);
    const entry = this.#entries.get(key) as StateEntry | undefined;
    if (entry !== undefined && !entry.overtaken) {
      entry.state = state;
      entry.gap ||= gap;
      return;
    }
    this.#entries.delete(key);
    this.#entries.set(key, { state, gap, reported: entry?.reported ?? reported, overtaken: false });
  }

  snapshotComplete(): void {
    this.#entries.delete(COMPLETE);
    this.#entries.set(COMPLETE, "snapshotComplete");
  }

  /** `threadIds` undefined: all threads. */
  disconnected(threadIds: readonly string[] | undefined, error: CallError, silentForMs = 0): void {
    const earlier = this.#entries.get(DISCONNECTED) as { threadIds: readonly string[] } | undefined;
    const affected = new Set(threadIds);
    for (const id of earlier?.threadIds ?? []) {
      if ((this.#entries.get(keyOf(id)) as StateEntry | undefined)?.overtaken !== false) affected.add(id);
    }
    for (const key of threadIds?.map(keyOf) ?? this.#entries.keys()) {
      const entry = this.#entries.get(key);
      if (typeof entry === "object" && "overtaken" in entry) entry.overtaken = true;
    }
    this.#entries.delete(COMPLETE);
    this.#entries.delete(DISCONNECTED);
    this.#entries.set(DISCONNECTED, { error, threadIds: [...affected], silentForMs });
  }

  /** Removes and returns the next event, which counts as read. */
  shift(): WatchEvent | undefined {
    for (const [key, entry] of this.#entries) {
      this.#entries.delete(key);
      if (entry === "snapshotComplete") return { type: "snapshotComplete" };
      if ("error" in entry) return { type: "disconnected", ...entry };
      const { state, gap, reported } = entry;
      const changed = reported.version?.epoch !== state.storeEpoch || reported.version.revision !== state.revision;
      reported.version = versionOf(state);
      return { type: "state", state, gap, changed };
    }
    return undefined;
  }
}

function keyOf(threadId: string): string {
  return `thread ${threadId}`;
}
