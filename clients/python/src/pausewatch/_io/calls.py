"""The unary calls as values: the method, the request, and how the response is read.

Both clients build their calls here; they differ only in how they wait for the response.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ..errors import ConfigError, InvalidField
from ..messages import Decremented, Elicitation, Incremented, PausePage, PauseState, PauseStatePage
from ..v1 import elicitation_service_pb2 as pb
from .durations import SECOND, Seconds, read_nanos

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

Answer = TypeVar("Answer")
_Request = TypeVar("_Request", bound="Message")

_MAX_THREAD_ID_BYTES = 256


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One call, ready to be sent any number of times: its request id is fixed."""

    method: str
    """The RPC's name."""
    request: Message
    """The request message."""
    read: Callable[[Any], Answer]
    """Converts the response message to the caller's type."""


def increment(
    thread_id: str, *, reason: str = "", holder: str = "", ttl: Seconds | None = None, request_id: str = ""
) -> Call[Incremented]:
    request = _build(
        pb.IncrementElicitationRequest,
        thread_id=thread_id,
        request_id=request_id or str(uuid.uuid4()),
        reason=reason,
        holder=holder,
        ttl=_ttl(ttl),
    )
    return Call("IncrementElicitation", request, Incremented.read)


def decrement(thread_id: str, *, elicitation_id: str | None = None, request_id: str = "") -> Call[Decremented]:
    request = _build(
        pb.DecrementElicitationRequest,
        thread_id=thread_id,
        elicitation_id=elicitation_id,
        request_id=request_id or str(uuid.uuid4()),
    )
    return Call("DecrementElicitation", request, Decremented.read)


def renew(thread_id: str, elicitation_id: str, *, ttl: Seconds | None = None) -> Call[Elicitation]:
    request = _build(pb.RenewElicitationRequest, thread_id=thread_id, elicitation_id=elicitation_id, ttl=_ttl(ttl))
    return Call("RenewElicitation", request, lambda response: Elicitation.read(response.elicitation))


def get(thread_id: str) -> Call[PauseState]:
    request = _build(pb.GetPauseStateRequest, thread_id=thread_id)
    return Call("GetPauseState", request, lambda response: PauseState.read(response.pause_state))


def list_page(*, page_size: int = 0, page_token: str = "", include_running: bool = False) -> Call[PauseStatePage]:
    request = _build(pb.ListPauseStatesRequest, page_size=page_size, page_token=page_token, include_running=include_running)
    return Call("ListPauseStates", request, PauseStatePage.read)


def list_pauses(
    *,
    thread_id: str = "",
    start_time: datetime | None = None,
    end_time: datetime | None = None,
    page_size: int = 0,
    page_token: str = "",
) -> Call[PausePage]:
    request = _build(
        pb.ListPausesRequest,
        page_size=page_size,
        page_token=page_token,
        thread_id=thread_id,
        start_time=_moment("start_time", start_time),
        end_time=_moment("end_time", end_time),
    )
    return Call("ListPauses", request, PausePage.read)


def _moment(field: str, time: datetime | None) -> Timestamp | None:
    if time is None:
        return None
    if not isinstance(time, datetime):
        raise _wrong_type(field, time, "a datetime")
    moment = Timestamp()
    moment.FromDatetime(time)
    return moment


def resolve_thread(named: str | None, configured: str | None) -> str:
    """The thread of the argument, else the configured one. Raises ConfigError: there is neither."""
    if named is not None:
        return named
    if configured is None:
        raise ConfigError("no thread: name one with thread_id or PAUSEWATCH_THREAD_ID")
    return configured


def check_thread_id(thread_id: str) -> None:
    """Raises InvalidField for an id that the server would refuse: it would end a stream, with every other thread on it."""
    if not isinstance(thread_id, str):
        raise _wrong_type("thread_id", thread_id, "a str")
    try:
        length = len(thread_id.encode())
    except UnicodeEncodeError:
        raise InvalidField.of("thread_id", "is not Unicode text; allowed: UTF-8") from None
    if length == 0:
        raise InvalidField.of("thread_id", f"is empty; allowed: 1 to {_MAX_THREAD_ID_BYTES} bytes")
    if length > _MAX_THREAD_ID_BYTES:
        raise InvalidField.of("thread_id", f"has {length} bytes; allowed: 1 to {_MAX_THREAD_ID_BYTES}")
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in thread_id):
        raise InvalidField.of("thread_id", "has a control character; allowed: none")


def _ttl(ttl: Seconds | None) -> Duration | None:
    if ttl is None:
        return None
    length = read_nanos("ttl", ttl)
    # Both parts have the sign of the whole, as google.protobuf.Duration requires.
    seconds, nanos = divmod(abs(length), SECOND)
    return Duration(seconds=seconds, nanos=nanos) if length >= 0 else Duration(seconds=-seconds, nanos=-nanos)


def _build(kind: type[_Request], **fields: object) -> _Request:
    """Builds the request. Raises InvalidField for a value that cannot be encoded, as the server does for one it refuses."""
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        for name, value in fields.items():
            try:
                kind(**{name: value})
            except TypeError:
                raise _wrong_type(name, value, _TYPES[kind.DESCRIPTOR.fields_by_name[name].type]) from None
            except ValueError as error:
                raise InvalidField.of(name, f"cannot be sent: {error}") from None
        raise


_TYPES = {FieldDescriptor.TYPE_STRING: "a str", FieldDescriptor.TYPE_INT32: "an int", FieldDescriptor.TYPE_BOOL: "a bool"}


def _wrong_type(field: str, value: object, allowed: str) -> InvalidField:
    return InvalidField.of(field, f"has the type {type(value).__name__}; allowed: {allowed}")
