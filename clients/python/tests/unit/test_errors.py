"""From what gRPC raises to typed errors."""

from __future__ import annotations

import pickle
import re
from datetime import timedelta

import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from support.service import limit_trailers

import pausewatch as pw
from pausewatch._io import status


class Raised:
    def __init__(self, code: StatusCode, details: str, trailers: list[tuple[str, str | bytes]]) -> None:
        self._parts = code, details, trailers

    def code(self) -> StatusCode:
        return self._parts[0]

    def details(self) -> str:
        return self._parts[1]

    def trailing_metadata(self) -> list[tuple[str, str | bytes]]:
        return self._parts[2]


def refused(code: StatusCode, reason: str, domain: str = "pausewatch") -> Raised:
    info, field = Any(), Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata={"thread_id": "t"}))
    violation = error_details_pb2.BadRequest.FieldViolation(field="ttl", description="is 1 ms; allowed: 1 s")
    field.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    details = status_pb2.Status(details=[field, info]).SerializeToString()
    return Raised(code, "in words", [("date", "now"), ("grpc-status-details-bin", details)])


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("INVALID_FIELD", pw.InvalidField),
        ("REQUEST_ID_REUSED", pw.RequestIdReused),
        ("NO_OUTSTANDING_ELICITATION", pw.NoOutstandingElicitation),
        ("ELICITATION_UNKNOWN", pw.ElicitationUnknown),
        ("ELICITATION_RELEASED", pw.ElicitationReleased),
        ("ELICITATION_EXPIRED", pw.ElicitationExpired),
        ("TOO_MANY_ELICITATIONS", pw.TooManyElicitations),
        ("LIMIT_EXCEEDED", pw.LimitExceeded),
        ("STORE_UNAVAILABLE", pw.StoreUnavailable),
        ("SOMETHING_NEW", pw.CallError),
    ],
)
def test_the_type_follows_the_reason(reason: str, kind: type[pw.CallError]) -> None:
    error = status.read(refused(StatusCode.NOT_FOUND, reason), "localhost:7420")
    assert type(error) is kind
    assert (error.code, error.reason, error.metadata) == (StatusCode.NOT_FOUND, reason, {"thread_id": "t"})


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (StatusCode.UNAUTHENTICATED, "TOKEN_EXPIRED", pw.Unauthenticated),
        (StatusCode.PERMISSION_DENIED, "THREAD_FORBIDDEN", pw.PermissionDenied),
    ],
)
def test_token_errors_have_their_own_types(code: StatusCode, reason: str, kind: type[pw.CallError]) -> None:
    error = status.read(refused(code, reason), "localhost:7420")
    assert (type(error), error.reason, isinstance(error, pw.TransientError)) == (kind, reason, False)


@pytest.mark.parametrize(
    ("retry", "retry_after"),
    [
        (None, None),
        (error_details_pb2.RetryInfo(), None),
        (error_details_pb2.RetryInfo(retry_delay=Duration()), timedelta(0)),
        (error_details_pb2.RetryInfo(retry_delay=Duration(nanos=20_000_999)), timedelta(milliseconds=20)),
        (error_details_pb2.RetryInfo(retry_delay=Duration(seconds=-1)), timedelta(0)),
        (error_details_pb2.RetryInfo(retry_delay=Duration(seconds=2**62)), timedelta(seconds=315_576_000_000)),
    ],
)
def test_a_limit_error_has_its_name_and_retry_delay(
    retry: error_details_pb2.RetryInfo | None, retry_after: timedelta | None
) -> None:
    error = status.read(
        Raised(StatusCode.RESOURCE_EXHAUSTED, "in words", limit_trailers("streams-per-caller", retry)), "localhost:7420"
    )
    assert isinstance(error, pw.LimitExceeded)
    assert (error.limit, error.retry_after, str(error)) == ("streams-per-caller", retry_after, "in words")
    again = pickle.loads(pickle.dumps(error))
    assert (again.limit, again.retry_after) == ("streams-per-caller", retry_after)


@pytest.mark.parametrize(
    ("limit", "transient"),
    [("calls-per-second", True), ("calls-per-second-per-caller", True), ("open-elicitations-per-caller", False), ("", False)],
)
def test_only_a_limit_of_calls_per_second_is_transient(limit: str, transient: bool) -> None:
    error = status.read(Raised(StatusCode.RESOURCE_EXHAUSTED, "", limit_trailers(limit)), "localhost:7420")
    assert (type(error), error.is_transient) == (pw.LimitExceeded, transient)
    assert not isinstance(error, pw.TransientError)


def test_every_transient_error_is_marked_transient() -> None:
    store = status.read(refused(StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE"), "localhost:7420")
    assert (store.is_transient, pw.Unavailable.of("gone").is_transient) == (True, True)
    assert not status.read(refused(StatusCode.NOT_FOUND, "SOMETHING_NEW"), "localhost:7420").is_transient


def test_a_reason_of_another_domain_is_ignored() -> None:
    error = status.read(refused(StatusCode.NOT_FOUND, "ELICITATION_EXPIRED", "example.com"), "localhost:7420")
    assert (type(error), error.reason, str(error)) == (pw.CallError, None, "in words")


def test_a_field_error_says_what_is_allowed() -> None:
    error = status.read(refused(StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"), "localhost:7420")
    assert isinstance(error, pw.InvalidField)
    assert (error.field, error.description, str(error)) == ("ttl", "is 1 ms; allowed: 1 s", "in words")


@pytest.mark.parametrize("code", [StatusCode.UNKNOWN, StatusCode.INTERNAL, StatusCode.CANCELLED, StatusCode.UNAVAILABLE])
def test_a_lost_connection_is_unavailable_whatever_its_code(code: StatusCode) -> None:
    error = status.read(Raised(code, "Stream removed", []), "localhost:7420")
    assert type(error) is pw.Unavailable
    assert error.code is StatusCode.UNAVAILABLE
    assert re.fullmatch("localhost:7420: (connection lost: )?Stream removed", str(error))


def test_an_answer_of_a_server_is_not_a_lost_connection() -> None:
    error = status.read(Raised(StatusCode.INTERNAL, "its own words", [("date", "now")]), "localhost:7420")
    assert (type(error), str(error)) == (pw.CallError, "its own words")


def test_undecodable_details_are_ignored() -> None:
    error = status.read(Raised(StatusCode.NOT_FOUND, "", [("grpc-status-details-bin", b"\xff\xff")]), "localhost:7420")
    assert (type(error), error.reason, str(error)) == (pw.CallError, None, "NOT_FOUND")


def test_an_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(pw.InvalidField.of("thread_id", "is empty")))
    assert (type(error), error.field, str(error)) == (pw.InvalidField, "thread_id", "thread_id is empty")


def test_transient_errors_differ_from_timeouts_of_a_block() -> None:
    assert issubclass(pw.DeadlineExceeded, pw.TransientError)
    assert not issubclass(pw.DeadlineExceeded, TimeoutError), "or it would look as if a pausable timeout had expired"
