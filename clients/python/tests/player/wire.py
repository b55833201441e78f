"""From this library's types to the lines of the stage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pausewatch as pw

Json = dict[str, Any]

_TYPES: dict[type[Exception], str] = {
    pw.InvalidField: "INVALID_FIELD",
    pw.RequestIdReused: "REQUEST_ID_REUSED",
    pw.NoOutstandingElicitation: "NO_OUTSTANDING_ELICITATION",
    pw.ElicitationUnknown: "ELICITATION_UNKNOWN",
    pw.ElicitationReleased: "ELICITATION_RELEASED",
    pw.ElicitationExpired: "ELICITATION_EXPIRED",
    pw.TooManyElicitations: "TOO_MANY_ELICITATIONS",
    pw.LimitExceeded: "LIMIT_EXCEEDED",
    pw.StoreUnavailable: "STORE_UNAVAILABLE",
    pw.Unauthenticated: "UNAUTHENTICATED",
    pw.PermissionDenied: "PERMISSION_DENIED",
    pw.Unavailable: "UNAVAILABLE",
    pw.DeadlineExceeded: "DEADLINE_EXCEEDED",
}


def seconds(step: Json, key: str) -> float | None:
    """An argument in milliseconds as the library takes it; None: it is absent."""
    return step[key] / 1_000 if key in step else None


def some(step: Json, *keys: str) -> Json:
    """Those of these arguments that are there."""
    return {key: step[key] for key in keys if key in step}


def milliseconds(length: timedelta) -> float:
    return length / timedelta(milliseconds=1)


def elicitation(elicitation: pw.Elicitation) -> Json:
    answer: Json = {
        "elicitation_id": elicitation.elicitation_id,
        "thread_id": elicitation.thread_id,
        "reason": elicitation.reason,
        "holder": elicitation.holder,
    }
    if elicitation.expire_time is not None and elicitation.create_time is not None:
        answer["lease_ms"] = milliseconds(elicitation.expire_time - elicitation.create_time)
    return answer


def pause(pause: pw.Pause) -> Json:
    return {
        "thread_id": pause.thread_id,
        "duration_ms": milliseconds(pause.duration),
        "ended_by": pause.ended_by.name.lower(),
        "elicitations": [
            {
                "elicitation_id": closed.elicitation_id,
                "reason": closed.reason,
                "holder": closed.holder,
                "ended_by": closed.ended_by.name.lower(),
            }
            for closed in pause.elicitations
        ],
        "omitted_elicitations": pause.omitted_elicitations,
    }


def state(state: pw.PauseState) -> Json:
    answer: Json = {
        "thread_id": state.thread_id,
        "count": state.count,
        "paused": state.paused,
        "revision": state.revision,
        "paused_total_ms": milliseconds(state.paused_total),
        "elicitations": [elicitation(each) for each in state.elicitations],
    }
    if state.paused_for is not None:
        answer["paused_for_ms"] = milliseconds(state.paused_for)
    return answer


def event(event: pw.Event | None) -> Json:
    match event:
        case pw.State():
            return {"event": "state", "state": state(event.state), "gap": event.gap, "changed": event.changed}
        case pw.SnapshotComplete():
            return {"event": "snapshot_complete"}
        case pw.Disconnected():
            return {"event": "disconnected"}
        case None:
            return {"event": "nothing"}


def ended_by(ended: pw.Stopwatch | pw.AsyncStopwatch | pw.PausableTimeout) -> Json:
    return {} if ended.ended_by is None else {"ended_by": ended.ended_by.value}


def release(release: pw.Release) -> Json:
    answer: Json = {"ending": release.ending.value}
    return answer if release.count is None else answer | {"count": release.count}


def error(error: Exception) -> Json:
    answer: Json = {"type": _TYPES.get(type(error), "OTHER"), "message": str(error) or repr(error)}
    return answer | {"field": error.field} if isinstance(error, pw.InvalidField) else answer
