/**
 * What a watch has to tell and its reader has not taken yet. Pure.
 *
 * 1. At most one state of each thread, the latest, and one event of each other kind: a slow reader costs O(threads), never O(changes).
 * 2. A state that is overtaken before it was read is not lost to `gap` and `changed`: both are by what the reader was told.
 * 3. The reader never learns that a thread is not heard of after its newest state: what was told before a break is told anew behind it.
 */
import type { CallError } from "../errors.js";
import type { PauseState } from "../messages.js";
import { type Version, versionOf } from "../version.js";
import type { DisconnectedEvent, WatchEvent } from "./event.js";

/** What the reader was last told of a thread. */
export interface Told {
  version: Version | undefined;
}

interface StateEntry {
  state: PauseState;
  gap: boolean;
  readonly told: Told;
  /** A break of its thread waits behind it. */
  overtaken: boolean;
}

type Entry = StateEntry | Omit<DisconnectedEvent, "type"> | "snapshotComplete";

/** Keys that no thread id can be: those have a prefix. */
const BREAK = "disconnected";
const COMPLETE = "snapshotComplete";

export class EventQueue {
  /** In the order in which they are to be told. */
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  state(state: PauseState, gap: boolean, told: Told): void {
    const key = keyOf(state.threadId);
    const entry = this.#entries.get(key) as StateEntry | undefined;
    if (entry !== undefined && !entry.overtaken) {
      entry.state = state;
      entry.gap ||= gap;
      return;
    }
    this.#entries.delete(key);
    this.#entries.set(key, { state, gap, told: entry?.told ?? told, overtaken: false });
  }

  snapshotComplete(): void {
    this.#entries.delete(COMPLETE);
    this.#entries.set(COMPLETE, "snapshotComplete");
  }

  /** `threadIds`: undefined is all of them. */
  disconnected(threadIds: readonly string[] | undefined, error: CallError, silentForMs = 0): void {
    const earlier = this.#entries.get(BREAK) as { threadIds: readonly string[] } | undefined;
    const affected = new Set(threadIds);
    for (const id of earlier?.threadIds ?? []) {
      if ((this.#entries.get(keyOf(id)) as StateEntry | undefined)?.overtaken !== false) affected.add(id);
    }
    for (const key of threadIds?.map(keyOf) ?? this.#entries.keys()) {
      const entry = this.#entries.get(key);
      if (typeof entry === "object" && "overtaken" in entry) entry.overtaken = true;
    }
    this.#entries.delete(COMPLETE);
    this.#entries.delete(BREAK);
    this.#entries.set(BREAK, { error, threadIds: [...affected], silentForMs });
  }

  /** Takes the next event, which counts as told. */
  shift(): WatchEvent | undefined {
    for (const [key, entry] of this.#entries) {
      this.#entries.delete(key);
      if (entry === "snapshotComplete") return { type: "snapshotComplete" };
      if ("error" in entry) return { type: "disconnected", ...entry };
      const { state, gap, told } = entry;
      const changed = told.version?.epoch !== state.storeEpoch || told.version.revision !== state.revision;
      told.version = versionOf(state);
      return { type: "state", state, gap, changed };
    }
    return undefined;
  }
}

function keyOf(threadId: string): string {
  return `thread ${threadId}`;
}
