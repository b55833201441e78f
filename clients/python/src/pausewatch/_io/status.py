"""Converts the exceptions of gRPC to the errors of this library, in one place.

1. The type is chosen by the server's reason, then by the code.
2. A connection that cannot be opened, or is lost during a call, is UNAVAILABLE with the address and the cause, whatever code
   gRPC reports: it chooses the code by the layer that noticed the loss (UNKNOWN, INTERNAL, CANCELLED). Such a status has no
   trailing metadata, while every answer of a coordinator has some.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from ..errors import (
    CallError,
    DeadlineExceeded,
    ElicitationExpired,
    ElicitationReleased,
    ElicitationUnknown,
    InvalidField,
    LimitExceeded,
    NoOutstandingElicitation,
    PermissionDenied,
    RequestIdReused,
    Status,
    StoreUnavailable,
    TooManyElicitations,
    Unauthenticated,
    Unavailable,
)
from .durations import MAX_DURATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.duration_pb2 import Duration

    from ..v1 import elicitation_service_pb2 as pb

DOMAIN = "pausewatch"
"""The domain of the reasons."""

_DETAILS = "grpc-status-details-bin"
_BY_REASON: dict[str | None, type[CallError]] = {
    "INVALID_FIELD": InvalidField,
    "REQUEST_ID_REUSED": RequestIdReused,
    "NO_OUTSTANDING_ELICITATION": NoOutstandingElicitation,
    "ELICITATION_UNKNOWN": ElicitationUnknown,
    "ELICITATION_RELEASED": ElicitationReleased,
    "ELICITATION_EXPIRED": ElicitationExpired,
    "TOO_MANY_ELICITATIONS": TooManyElicitations,
    "LIMIT_EXCEEDED": LimitExceeded,
    "STORE_UNAVAILABLE": StoreUnavailable,
}
_BY_CODE: dict[StatusCode, type[CallError]] = {
    StatusCode.UNAVAILABLE: Unavailable,
    StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    # A proxy in front of the server may require a token too.
    StatusCode.UNAUTHENTICATED: Unauthenticated,
    StatusCode.PERMISSION_DENIED: PermissionDenied,
}
_LOST_CONNECTION_CODES = frozenset({StatusCode.UNKNOWN, StatusCode.INTERNAL, StatusCode.CANCELLED})


class Failure(Protocol):
    """The common methods of the errors of `grpc` and of `grpc.aio`."""

    def code(self) -> StatusCode: ...
    def details(self) -> str | None: ...
    def trailing_metadata(self) -> Iterable[Any] | None: ...


def read(failure: Failure, address: str) -> CallError:
    """Converts the exception of a call to this address."""
    trailers = list(failure.trailing_metadata() or ())
    code, message = failure.code(), failure.details() or ""
    if not trailers and code in _LOST_CONNECTION_CODES:
        return Unavailable.of(f"{address}: connection lost: {message}")
    if not trailers and code is StatusCode.UNAVAILABLE:
        return Unavailable.of(f"{address}: {message}")
    details = next((value for key, value in trailers if key == _DETAILS and isinstance(value, bytes)), b"")
    status = _unpack(code, message, details)
    return _BY_REASON.get(status.reason, _BY_CODE.get(code, CallError))(status)


def unexpected(failure: BaseException) -> CallError:
    """Converts an exception that an interceptor or a token source of the program raised in the background, where no caller
    receives it.
    """
    error = CallError(Status(StatusCode.UNKNOWN, f"{type(failure).__name__}: {failure}"))
    error.__cause__ = failure
    return error


def from_refusal(refusal: pb.Refusal) -> CallError:
    """Converts the refusal of a request of a stream."""
    code = next((code for code in StatusCode if code.value[0] == refusal.code), StatusCode.UNKNOWN)
    retry_after = _retry_after(refusal.retry_after) if refusal.HasField("retry_after") else None
    status = Status(code, refusal.message, refusal.reason or None, retry_after=retry_after)
    return _BY_REASON.get(status.reason, _BY_CODE.get(code, CallError))(status)


def _retry_after(delay: Duration) -> timedelta:
    return timedelta(microseconds=max(0, min(delay.ToNanoseconds(), MAX_DURATION)) // 1_000)


def _unpack(code: StatusCode, message: str, details: bytes) -> Status:
    reason, metadata, violations, retry_after = None, dict[str, str](), tuple[tuple[str, str], ...](), None
    info, refused, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    try:
        for detail in status_pb2.Status.FromString(details).details:
            if detail.Unpack(info) and info.domain == DOMAIN:
                reason, metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(refused):
                violations = tuple((violation.field, violation.description) for violation in refused.field_violations)
            elif detail.Unpack(retry) and retry.HasField("retry_delay"):
                retry_after = _retry_after(retry.retry_delay)
    except DecodeError:
        pass  # Details that cannot be decoded are ignored: the code and the message remain.
    return Status(code, message, reason, metadata, violations, retry_after)
