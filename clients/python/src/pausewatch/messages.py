"""The results of the calls, in Python's own types.

They are the messages of the proto, which defines each field, with timedelta, datetime and tuple in place of the protobuf
types. A timedelta has microseconds; smaller parts are cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from grpc import StatusCode

from .errors import CallError, Status

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    from .v1 import elicitation_service_pb2 as pb

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Elicitation:
    """One open question to a person."""

    elicitation_id: str
    """Its id, chosen by the server, unique among all threads."""
    thread_id: str
    """The thread that it pauses."""
    reason: str
    """The question to the person."""
    holder: str
    """The program that asks."""
    create_time: datetime | None
    """When it was opened, by the server's wall clock."""
    expire_time: datetime | None
    """When its lease ends unless it is renewed, by the server's wall clock. None: it has no lease."""

    @classmethod
    def read(cls, message: pb.Elicitation) -> Elicitation:
        """Converts the protobuf message."""
        created = _moment(message.create_time) if message.HasField("create_time") else None
        expires = _moment(message.expire_time) if message.HasField("expire_time") else None
        return cls(message.elicitation_id, message.thread_id, message.reason, message.holder, created, expires)


@dataclass(frozen=True, slots=True)
class PauseState:
    """The pause state of one thread, at the moment when the server sent it."""

    thread_id: str
    """The thread."""
    count: int
    """The number of its open elicitations: 0 to 1,000."""
    paused: bool
    """Whether `count` is above 0."""
    revision: int
    """Increases with every change of the thread, and never decreases within one `store_epoch`."""
    paused_total: timedelta
    """The total time that the thread has been paused, including the open pause."""
    paused_for: timedelta | None
    """How long the open pause has lasted, by the server's clock; None while the thread runs."""
    pause_start_time: datetime | None
    """When the open pause began, by the server's wall clock (for display only); None while the thread runs."""
    elicitations: tuple[Elicitation, ...]
    """The open elicitations, oldest first; in a watch only with `include_elicitations`."""
    store_epoch: int
    """Identifies the history of the server's store: `revision` and `paused_total` can be compared only within one epoch. A
    restored store, a new store and a restarted memory store have a new epoch. 0: the server is older than this field."""

    @classmethod
    def read(cls, message: pb.PauseState) -> PauseState:
        """Converts the protobuf message."""
        return cls(
            message.thread_id,
            message.count,
            message.paused,
            message.revision,
            _length(message.paused_total),
            _length(message.paused_for) if message.HasField("paused_for") else None,
            _moment(message.pause_start_time) if message.HasField("pause_start_time") else None,
            tuple(map(Elicitation.read, message.elicitations)),
            message.store_epoch,
        )


@dataclass(frozen=True, slots=True)
class PauseStatePage:
    """One page of threads."""

    pause_states: tuple[PauseState, ...]
    """The threads, sorted by `thread_id` in byte order, with their elicitations."""
    next_page_token: str
    """The token of the next page; empty: this was the last page."""

    @classmethod
    def read(cls, message: pb.ListPauseStatesResponse) -> PauseStatePage:
        """Converts the protobuf message."""
        return cls(tuple(map(PauseState.read, message.pause_states)), message.next_page_token)


class PauseEnd(Enum):
    """How a pause, or an elicitation, ended."""

    UNKNOWN = 0
    """In a way that this version of the library does not know."""
    DECREMENTED = 1
    """By a decrement."""
    RELEASED = 2
    """By a decrement with an admin's token."""
    EXPIRED = 3
    """By the end of its lease, which was not renewed in time."""
    MAX_PAUSE = 4
    """By the server's limit --max-pause."""

    @classmethod
    def _missing_(cls, _: object) -> PauseEnd:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ClosedElicitation:
    """One question to a person that is no longer open."""

    elicitation_id: str
    """Its id."""
    reason: str
    """The question to the person."""
    holder: str
    """The program that asked."""
    create_time: datetime
    """When it was opened, by the server's wall clock."""
    end_time: datetime
    """When it was closed, by the server's wall clock."""
    ended_by: PauseEnd
    """How it was closed."""

    @classmethod
    def read(cls, message: pb.ClosedElicitation) -> ClosedElicitation:
        """Converts the protobuf message."""
        created, ended = _moment(message.create_time), _moment(message.end_time)
        end = PauseEnd(message.ended_by)
        return cls(message.elicitation_id, message.reason, message.holder, created, ended, end)


@dataclass(frozen=True, slots=True)
class Pause:
    """One ended pause of a thread."""

    thread_id: str
    """The thread."""
    start_time: datetime
    """When it began, by the server's wall clock."""
    end_time: datetime
    """When it ended, by the server's wall clock."""
    duration: timedelta
    """How long it was, by the server's monotonic clock."""
    ended_by: PauseEnd
    """How it ended."""
    elicitations: tuple[ClosedElicitation, ...]
    """Its elicitations in the order in which they were closed: at most 16."""
    omitted_elicitations: int
    """The number of further elicitations that are not in `elicitations`."""

    @classmethod
    def read(cls, message: pb.Pause) -> Pause:
        """Converts the protobuf message."""
        return cls(
            message.thread_id,
            _moment(message.start_time),
            _moment(message.end_time),
            _length(message.duration),
            PauseEnd(message.ended_by),
            tuple(map(ClosedElicitation.read, message.elicitations)),
            message.omitted_elicitations,
        )


@dataclass(frozen=True, slots=True)
class PausePage:
    """One page of ended pauses."""

    pauses: tuple[Pause, ...]
    """The pauses, latest end first."""
    next_page_token: str
    """The token of the next page; empty: this was the last page."""
    history_start_time: datetime
    """The server still has every pause that ended at this time or later, by its wall clock."""

    @classmethod
    def read(cls, message: pb.ListPausesResponse) -> PausePage:
        """Converts the protobuf message."""
        return cls(tuple(map(Pause.read, message.pauses)), message.next_page_token, _moment(message.history_start_time))


@dataclass(frozen=True, slots=True)
class Incremented:
    """The result of an increment."""

    count: int
    """The number of open elicitations of the thread right after the call: 1 to 1,000."""
    paused: bool
    """Always true."""
    revision: int
    """The revision of the thread after the call."""
    elicitation: Elicitation
    """The elicitation that was opened."""
    watchers: int
    """The number of streams that watch the thread now. 0 indicates that no exec server will notice the pause."""

    @classmethod
    def read(cls, message: pb.IncrementElicitationResponse) -> Incremented:
        """Converts the protobuf message. Raises CallError if the elicitation is missing: it could not be renewed or closed."""
        if not message.HasField("elicitation"):
            raise CallError(Status(StatusCode.INTERNAL, "the answer to the increment has no elicitation"))
        elicitation = Elicitation.read(message.elicitation)
        return cls(message.count, message.paused, message.revision, elicitation, message.watchers)


@dataclass(frozen=True, slots=True)
class Decremented:
    """The result of a decrement."""

    count: int
    """The number of open elicitations of the thread right after the call: 0 to 999."""
    paused: bool
    """Whether the thread is still paused."""
    revision: int
    """The revision of the thread after the call."""

    @classmethod
    def read(cls, message: pb.DecrementElicitationResponse) -> Decremented:
        """Converts the protobuf message."""
        return cls(message.count, message.paused, message.revision)


def _length(duration: Duration) -> timedelta:
    try:
        return timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1_000)
    except OverflowError:
        return timedelta.max if duration.seconds > 0 else timedelta.min


def _moment(timestamp: Timestamp) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1_000)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if timestamp.seconds > 0 else datetime.min.replace(tzinfo=UTC)
