import type { CallError } from "../errors.js";
import type { PauseState } from "../messages.js";

/** One event of a watch. */
export type WatchEvent =
  /** The state of a thread: the first one, a change, or the first one after a break. */
  | StateEvent
  /**
   * The state of every watched thread has been delivered; changes follow. Repeated after every reconnection and after threads were added.
   */
  | { readonly type: "snapshotComplete" }
  /** From here on nothing is known of these threads until their next state comes. The watch is trying again; a thread that the token does not open, when it reconnects. */
  | DisconnectedEvent;

export interface StateEvent {
  readonly type: "state";
  /** Its `elicitations` are filled if the watch asked for them. */
  readonly state: PauseState;
  /** Changes may have been missed before this state: it is the first of its thread, or the first after a break. */
  readonly gap: boolean;
  /** Whether the revision or the epoch differs from the last delivered one. `false` only after a gap in which nothing changed. */
  readonly changed: boolean;
}

export interface DisconnectedEvent {
  readonly type: "disconnected";
  /** The threads; empty with a watch of all, where it is all of them. */
  readonly threadIds: readonly string[];
  /** Why. */
  readonly error: CallError;
  /** How long ago the last message came, if the connection died in silence; 0 if its end was noticed at once. */
  readonly silentForMs: number;
}
