/** The library's types as the scenarios write them. */
import {
  type CallError,
  DeadlineExceededError,
  type Elicitation,
  ElicitationExpiredError,
  ElicitationReleasedError,
  ElicitationUnknownError,
  InvalidFieldError,
  LimitExceededError,
  NoOutstandingElicitationError,
  type Pause,
  type PauseEnd,
  type PauseState,
  PermissionDeniedError,
  RequestIdReusedError,
  StoreUnavailableError,
  TooManyElicitationsError,
  UnauthenticatedError,
  UnavailableError,
  type WatchEvent,
} from "pausewatch";

export type Json = Record<string, unknown>;

const TYPES: readonly [new (...args: never[]) => CallError, string][] = [
  [InvalidFieldError, "INVALID_FIELD"],
  [RequestIdReusedError, "REQUEST_ID_REUSED"],
  [NoOutstandingElicitationError, "NO_OUTSTANDING_ELICITATION"],
  [ElicitationUnknownError, "ELICITATION_UNKNOWN"],
  [ElicitationReleasedError, "ELICITATION_RELEASED"],
  [ElicitationExpiredError, "ELICITATION_EXPIRED"],
  [TooManyElicitationsError, "TOO_MANY_ELICITATIONS"],
  [LimitExceededError, "LIMIT_EXCEEDED"],
  [StoreUnavailableError, "STORE_UNAVAILABLE"],
  [UnauthenticatedError, "UNAUTHENTICATED"],
  [PermissionDeniedError, "PERMISSION_DENIED"],
  [UnavailableError, "UNAVAILABLE"],
  [DeadlineExceededError, "DEADLINE_EXCEEDED"],
];

export function errorToWire(error: unknown): Json {
  const type = TYPES.find(([known]) => error instanceof known)?.[1] ?? "OTHER";
  const field = error instanceof InvalidFieldError ? { field: error.field } : {};
  return { type, ...field, message: error instanceof Error ? error.message : String(error) };
}

export function elicitationToWire(elicitation: Elicitation): Json {
  const { elicitationId, threadId, reason, holder, createTime, expireTime } = elicitation;
  const lease = expireTime === undefined ? {} : { lease_ms: expireTime.getTime() - createTime.getTime() };
  return { elicitation_id: elicitationId, thread_id: threadId, reason, holder, ...lease };
}

export function stateToWire(state: PauseState): Json {
  return {
    thread_id: state.threadId,
    count: state.count,
    paused: state.paused,
    revision: Number(state.revision),
    paused_total_ms: state.pausedTotalMs,
    paused_for_ms: state.pausedForMs,
    elicitations: state.elicitations.map(elicitationToWire),
  };
}

export function pauseToWire(pause: Pause): Json {
  const end = (endedBy: PauseEnd) => (endedBy === "maxPause" ? "max_pause" : endedBy);
  return {
    thread_id: pause.threadId,
    duration_ms: pause.durationMs,
    ended_by: end(pause.endedBy),
    elicitations: pause.elicitations.map(({ elicitationId, reason, holder, endedBy }) => ({
      elicitation_id: elicitationId,
      reason,
      holder,
      ended_by: end(endedBy),
    })),
    omitted_elicitations: pause.omittedElicitations,
  };
}

export function eventToWire(event: WatchEvent): Json {
  switch (event.type) {
    case "state":
      return { event: "state", state: stateToWire(event.state), gap: event.gap, changed: event.changed };
    case "snapshotComplete":
      return { event: "snapshot_complete" };
    case "disconnected":
      return { event: "disconnected" };
  }
}
