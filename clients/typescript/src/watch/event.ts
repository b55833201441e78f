import type { CallError } from "../errors.js";
import type { PauseState } from "../messages.js";

/** One event of a watch. */
export type WatchEvent =
  /** The state of a thread: its first one, a change, or the first one after a disconnect. */
  | StateEvent
  /**
   * The state of every watched thread has been delivered; changes follow. Repeated after every reconnect and after threads were added.
   */
  | { readonly type: "snapshotComplete" }
  /**
   * The states of these threads are unknown until the next one arrives. The watch reconnects by itself; a thread that the token may not read is
   * requested again after the next reconnect.
   */
  | DisconnectedEvent;

export interface StateEvent {
  readonly type: "state";
  /** Its `elicitations` are filled if the watch was made with `includeElicitations`. */
  readonly state: PauseState;
  /** Changes may have been missed before this state: it is the first of its thread, or the first after a disconnect. */
  readonly gap: boolean;
  /** Whether the revision or the epoch differs from the last delivered one. `false` only after a gap in which nothing changed. */
  readonly changed: boolean;
}

export interface DisconnectedEvent {
  readonly type: "disconnected";
  /** The threads. Empty in a watch of all threads: then every thread is disconnected. */
  readonly threadIds: readonly string[];
  /** The cause. */
  readonly error: CallError;
  /** The time since the last message, if the connection was silent until it was given up; 0 if its end was noticed at once. */
  readonly silentForMs: number;
}
