/**
 * The requests and results of calls, in JavaScript's own types: durations are milliseconds with fractions, moments are `Date`s, revisions are
 * `bigint`s. The proto defines each field, for every language.
 */
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { invalidField } from "./errors.js";
import {
  type Elicitation as WireElicitation,
  type Pause as WirePause,
  PauseEnd as WirePauseEnd,
  type PauseState as WireState,
} from "./gen/pausewatch/v1/elicitation_service_pb.js";

/** One open question to a person. */
export interface Elicitation {
  readonly elicitationId: string;
  readonly threadId: string;
  /** The question to the person. */
  readonly reason: string;
  /** Who asks. */
  readonly holder: string;
  /** When it was opened, by the server's wall clock. */
  readonly createTime: Date;
  /** When its lease ends unless it is renewed, by the server's wall clock; absent: it has no lease. */
  readonly expireTime?: Date;
}

/** The pause state of one thread, at the moment when the server sent it. */
export interface PauseState {
  readonly threadId: string;
  /** The number of its open elicitations: 0 to 1,000. */
  readonly count: number;
  /** Whether the thread is paused: `count` is above 0. */
  readonly paused: boolean;
  /** Increases with every change of the thread, and never decreases within one `storeEpoch`. */
  readonly revision: bigint;
  /** The total time that the thread has been paused, including the open pause. */
  readonly pausedTotalMs: number;
  /** How long the open pause has lasted, by the server's clock; present while paused. */
  readonly pausedForMs?: number;
  /** When the open pause began, by the server's wall clock; present while paused. For display only: to compute, use `pausedForMs`. */
  readonly pauseStartTime?: Date;
  /** The open elicitations, oldest first; in a watch only with `includeElicitations`. */
  readonly elicitations: readonly Elicitation[];
  /**
   * Identifies the history of the server's store: `revision` and `pausedTotalMs` can be compared only within one epoch. A restored store, a new
   * store and a restarted memory store have a new epoch. 0: the server is older than this field.
   */
  readonly storeEpoch: bigint;
}

export interface IncrementRequest {
  /** 1 to 256 bytes of UTF-8 without control characters. Default: the client's thread. */
  readonly threadId?: string | undefined;
  /** Identifies this call, so that it counts once: up to 128 bytes. Default: a random UUID. */
  readonly requestId?: string;
  /** The question to the person, shown in lists and logs: up to 1,024 bytes. */
  readonly reason?: string;
  /** Who asks: up to 256 bytes. */
  readonly holder?: string;
  /** The lease in milliseconds: 1 s to 24 h. Default: the server's default. */
  readonly ttlMs?: number;
}

export interface IncrementResponse {
  /** The number of open elicitations of the thread right after this call: 1 to 1,000. */
  readonly count: number;
  /** Always true. */
  readonly paused: boolean;
  /** The revision of the thread after this call. */
  readonly revision: bigint;
  /** The elicitation that was opened. */
  readonly elicitation: Elicitation;
  /** The number of streams that watch the thread now; 0 indicates that no exec server will notice the pause. */
  readonly watchers: number;
}

export interface DecrementRequest {
  /** Default: the client's thread. */
  readonly threadId?: string | undefined;
  /** The elicitation to close. Default: the oldest that was opened without a lease, else the oldest. */
  readonly elicitationId?: string;
  /** As in {@link IncrementRequest}; the ids of the two calls are independent. */
  readonly requestId?: string;
}

export interface DecrementResponse {
  /** The number of open elicitations of the thread right after this call: 0 to 999. */
  readonly count: number;
  readonly paused: boolean;
  /** The revision of the thread after this call. */
  readonly revision: bigint;
}

export interface RenewRequest {
  /** Default: the client's thread. */
  readonly threadId?: string | undefined;
  readonly elicitationId: string;
  /** The lease ends this many milliseconds from now: 1 s to 24 h. Default: the previous ttl. */
  readonly ttlMs?: number;
}

export interface GetRequest {
  /** Default: the client's thread. */
  readonly threadId?: string | undefined;
}

export interface ListRequest {
  /** The maximum number of threads per page; larger values than 1,000 count as 1,000. Default: 100. */
  readonly pageSize?: number;
  /** `nextPageToken` of the previous page. */
  readonly pageToken?: string;
  /** Also lists the known threads that are not paused. Default: false. */
  readonly includeRunning?: boolean;
}

export interface ListResponse {
  /** The threads, sorted by `threadId` in byte order, with `elicitations`. */
  readonly pauseStates: readonly PauseState[];
  /** Empty: this was the last page. */
  readonly nextPageToken: string;
}

/** How a pause, or an elicitation, ended; `released`: by a decrement with an admin's token. */
export type PauseEnd = "decremented" | "released" | "expired" | "maxPause" | "unknown";

export interface ListPausesRequest {
  /** Only pauses of this thread. Default: of every thread that the caller may read. */
  readonly threadId?: string;
  /** Only pauses that ended at this time or later. */
  readonly startTime?: Date;
  /** Only pauses that ended before this time. */
  readonly endTime?: Date;
  /** The maximum number of pauses per page; larger values than 1,000 count as 1,000. Default: 100. */
  readonly pageSize?: number;
  /** `nextPageToken` of the previous page. */
  readonly pageToken?: string;
}

export interface ListPausesResponse {
  /** The pauses, latest end first. */
  readonly pauses: readonly Pause[];
  /** Empty: this was the last page. */
  readonly nextPageToken: string;
  /** The server still has every pause that ended at this time or later, by its wall clock. */
  readonly historyStartTime: Date;
}

/** One ended pause of a thread. */
export interface Pause {
  readonly threadId: string;
  /** When it began, by the server's wall clock. */
  readonly startTime: Date;
  /** When it ended, by the server's wall clock. */
  readonly endTime: Date;
  /** How long it was, by the server's monotonic clock. */
  readonly durationMs: number;
  readonly endedBy: PauseEnd;
  /** Its elicitations in the order in which they were closed: at most 16. */
  readonly elicitations: readonly ClosedElicitation[];
  /** The number of further elicitations that are not in `elicitations`. */
  readonly omittedElicitations: number;
}

/** One question to a person that is no longer open. */
export interface ClosedElicitation {
  readonly elicitationId: string;
  /** The question to the person. */
  readonly reason: string;
  /** Who asked. */
  readonly holder: string;
  /** When it was opened, by the server's wall clock. */
  readonly createTime: Date;
  /** When it was closed, by the server's wall clock. */
  readonly endTime: Date;
  readonly endedBy: PauseEnd;
}

export function pauseOf(wire: WirePause): Pause {
  const { threadId, startTime, endTime, duration, endedBy, elicitations, omittedElicitations } = wire;
  return {
    threadId,
    startTime: dateOf(startTime),
    endTime: dateOf(endTime),
    durationMs: duration === undefined ? 0 : durationOf(duration),
    endedBy: pauseEndOf(endedBy),
    elicitations: elicitations.map(({ elicitationId, reason, holder, createTime, ...closed }) => ({
      elicitationId,
      reason,
      holder,
      createTime: dateOf(createTime),
      endTime: dateOf(closed.endTime),
      endedBy: pauseEndOf(closed.endedBy),
    })),
    omittedElicitations,
  };
}

function pauseEndOf(end: WirePauseEnd): PauseEnd {
  switch (end) {
    case WirePauseEnd.DECREMENTED:
      return "decremented";
    case WirePauseEnd.RELEASED:
      return "released";
    case WirePauseEnd.EXPIRED:
      return "expired";
    case WirePauseEnd.MAX_PAUSE:
      return "maxPause";
    default:
      return "unknown";
  }
}

export function dateOf(time: Timestamp | undefined): Date {
  return time === undefined ? new Date(0) : timestampDate(time);
}

export function pauseStateOf(wire: WireState): PauseState {
  const { threadId, count, paused, revision, pausedTotal, pausedFor, pauseStartTime, elicitations, storeEpoch } = wire;
  return {
    threadId,
    count,
    paused,
    revision,
    pausedTotalMs: pausedTotal === undefined ? 0 : durationOf(pausedTotal),
    ...(pausedFor === undefined ? {} : { pausedForMs: durationOf(pausedFor) }),
    ...(pauseStartTime === undefined ? {} : { pauseStartTime: timestampDate(pauseStartTime) }),
    elicitations: elicitations.map(elicitationOf),
    storeEpoch,
  };
}

export function elicitationOf(wire: WireElicitation): Elicitation {
  const { elicitationId, threadId, reason, holder, createTime, expireTime } = wire;
  return {
    elicitationId,
    threadId,
    reason,
    holder,
    createTime: dateOf(createTime),
    ...(expireTime === undefined ? {} : { expireTime: timestampDate(expireTime) }),
  };
}

/**
 * Converts a duration for a request.
 *
 * @throws {InvalidFieldError} It is not a number, or too large for the message. The server checks whether it is allowed.
 */
export function durationToWire(field: string, ms: number): Pick<Duration, "seconds" | "nanos"> {
  if (typeof ms !== "number")
    throw invalidField(field, `${field} has the type ${typeof ms}; allowed: a number of milliseconds`);
  const seconds = Math.trunc(ms / 1_000);
  if (!Number.isSafeInteger(seconds)) throw invalidField(field, `${field} is ${ms} ms; allowed: 1 s to 24 h`);
  return { seconds: BigInt(seconds), nanos: Math.trunc((ms - seconds * 1_000) * 1e6) };
}

/**
 * Converts a time for a request.
 *
 * @throws {InvalidFieldError} It is an invalid `Date`. The server checks whether it is allowed.
 */
export function dateToWire(field: string, date: Date): Pick<Timestamp, "seconds" | "nanos"> {
  const ms = date.getTime();
  if (Number.isNaN(ms)) throw invalidField(field, `${field} is an invalid Date`);
  const seconds = Math.floor(ms / 1_000);
  return { seconds: BigInt(seconds), nanos: (ms - seconds * 1_000) * 1e6 };
}

export function durationOf({ seconds, nanos }: Duration): number {
  return Number(seconds) * 1_000 + nanos / 1e6;
}
