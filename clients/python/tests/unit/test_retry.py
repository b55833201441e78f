"""When a call is tried again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from support.vectors import Json, cases, only

import pausewatch as pw
from pausewatch._io import status
from pausewatch._io.durations import MILLISECOND, SECOND
from pausewatch._io.retry import Attempts, backoff
from pausewatch._io.route import Route

if TYPE_CHECKING:
    from google.protobuf.message import Message

UNAVAILABLE = pw.Unavailable.of("nobody listens")
STORE_UNAVAILABLE = pw.StoreUnavailable(pw.Status(StatusCode.UNAVAILABLE, "the disk is full"))


class Raised:
    """What a call of gRPC ends with."""

    def __init__(self, case: Json) -> None:
        self._code = StatusCode[case["code"]]
        details: list[Message] = []
        if "reason" in case:
            metadata = {"limit": case["limit"]} if "limit" in case else {}
            details.append(error_details_pb2.ErrorInfo(reason=case["reason"], domain="pausewatch", metadata=metadata))
        if "retry_after_ms" in case:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromMilliseconds(case["retry_after_ms"])
            details.append(retry)
        packed = status_pb2.Status(code=self._code.value[0])
        for detail in details:
            packed.details.add().Pack(detail)
        self._trailers: list[tuple[str, str | bytes]] = [("date", "now"), ("grpc-status-details-bin", packed.SerializeToString())]

    def code(self) -> StatusCode:
        return self._code

    def details(self) -> str:
        return "in words"

    def trailing_metadata(self) -> list[tuple[str, str | bytes]]:
        return self._trailers


@pytest.mark.parametrize("case", cases("retries.json"))
def test_vectors(case: Json) -> None:
    only(case, "name", "code", "reason", "limit", "retry_after_ms", "repeated", "pauses_ms")
    error = status.read(Raised(case), "localhost:7420")
    if not case["repeated"]:
        with pytest.raises(pw.CallError):
            Attempts(3_600 * SECOND, 0).retry_delay(error, 0)
        return
    for _ in range(20):
        attempts = Attempts(3_600 * SECOND, 0)
        for least, most in case["pauses_ms"]:
            assert least * MILLISECOND <= attempts.retry_delay(error, 0) <= most * MILLISECOND


def test_retry_delays_are_random() -> None:
    assert len({next(backoff(SECOND, SECOND)) for _ in range(10)}) > 1


def limited(limit: str, retry_after: timedelta | None = None) -> pw.LimitExceeded:
    refusal = pw.Status(StatusCode.RESOURCE_EXHAUSTED, "", "LIMIT_EXCEEDED", {"limit": limit}, retry_after=retry_after)
    return pw.LimitExceeded(refusal)


def test_a_retry_delay_beyond_the_deadline_is_not_started() -> None:
    error = limited("calls-per-second", timedelta(seconds=4))
    with pytest.raises(pw.LimitExceeded) as raised:
        Attempts(4 * SECOND, 0).retry_delay(error, 0)
    assert raised.value is error
    assert Attempts(5 * SECOND, 0).retry_delay(error, 0) >= 4 * SECOND


def test_the_deadline_covers_attempts_and_retry_delays() -> None:
    attempts = Attempts(SECOND, now=7 * SECOND)
    assert attempts.begin(7 * SECOND)[1] == SECOND
    assert attempts.begin(9 * SECOND)[1] == 0
    with pytest.raises(pw.Unavailable):
        attempts.retry_delay(UNAVAILABLE, 8 * SECOND - MILLISECOND)


def test_the_deadline_error_has_its_length_and_the_previous_error() -> None:
    exceeded = pw.DeadlineExceeded(pw.Status(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
    attempts = Attempts(2 * SECOND, 0)
    with pytest.raises(pw.DeadlineExceeded, match="^no answer within 2 s$"):
        attempts.retry_delay(exceeded, 2 * SECOND)
    attempts.retry_delay(STORE_UNAVAILABLE, 0)
    with pytest.raises(pw.DeadlineExceeded, match="no answer within 2 s; before: the disk is full") as error:
        attempts.retry_delay(exceeded, 2 * SECOND)
    assert error.value.__cause__ is STORE_UNAVAILABLE


def test_a_deadline_without_a_connection_is_unavailable() -> None:
    exceeded = pw.DeadlineExceeded(pw.Status(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
    attempts = Attempts(2 * SECOND, 0)
    attempts.retry_delay(UNAVAILABLE, 0)
    with pytest.raises(pw.Unavailable, match="nobody listens; no answer within 2 s") as error:
        attempts.retry_delay(exceeded, 2 * SECOND)
    assert error.value.__cause__ is UNAVAILABLE


def test_it_is_retried_at_most_as_often_as_configured() -> None:
    attempts = Attempts(5 * SECOND, 0, retries=1)
    attempts.retry_delay(UNAVAILABLE, 0)
    with pytest.raises(pw.Unavailable):
        attempts.retry_delay(UNAVAILABLE, 0)


def test_the_first_attempt_fails_at_once_and_later_ones_wait_for_a_connection() -> None:
    attempts = Attempts(5 * SECOND, 0)
    assert not attempts.wait_for_ready
    attempts.retry_delay(UNAVAILABLE, 0)
    assert attempts.wait_for_ready


def several(addresses: int) -> Route[str]:
    return Route(addresses, lambda moves: f"channel {moves}", lambda _: None, lambda channel: channel)


def test_the_next_address_is_tried_at_once_and_a_full_round_has_a_retry_delay() -> None:
    attempts = Attempts(5 * SECOND, 0, retries=1, route=several(3))
    for moves in range(3):
        assert attempts.begin(0) == (f"channel {moves}", 1_500 * MILLISECOND)
        assert (attempts.retry_delay(UNAVAILABLE, 0) > 0) == (moves == 2)
    for _ in range(2):
        attempts.begin(0)
        assert attempts.retry_delay(UNAVAILABLE, 0) == 0
    attempts.begin(0)
    with pytest.raises(pw.Unavailable):
        attempts.retry_delay(UNAVAILABLE, 0)


def test_no_answer_within_half_a_short_deadline_is_unavailable() -> None:
    attempts = Attempts(SECOND, 0, route=several(2))
    assert attempts.begin(0) == ("channel 0", SECOND // 2)
    late = pw.DeadlineExceeded(pw.Status(StatusCode.DEADLINE_EXCEEDED, "late"))
    assert attempts.retry_delay(late, SECOND // 2) == 0
    assert attempts.begin(SECOND // 2) == ("channel 1", SECOND // 2)
    with pytest.raises(pw.Unavailable, match="no answer within 0.5 s; no answer within 1 s"):
        attempts.retry_delay(late, SECOND)


def test_an_unavailable_store_is_retried_at_the_same_address() -> None:
    attempts = Attempts(5 * SECOND, 0, route=several(2))
    attempts.begin(0)
    assert attempts.retry_delay(STORE_UNAVAILABLE, 0) > 0
    assert attempts.begin(0)[0] == "channel 0"


def test_calls_that_fail_at_one_replica_move_the_client_once() -> None:
    route, reported = several(3), []
    route.add_listener(lambda: reported.append(route.now[0]))
    assert all(route.move_on(moves) for moves in (0, 0, 1))
    assert (route.now, reported) == ((2, "channel 2"), [1, 2])
    assert not several(1).move_on(0)


def test_a_channel_is_replaced_once_for_all_calls_that_failed_over_it_and_not_again_at_once() -> None:
    route = several(1)
    for moves, now, channel in (
        (0, 0, "channel 1"),
        (0, SECOND, "channel 1"),
        (1, 499 * MILLISECOND, "channel 1"),
        (1, 500 * MILLISECOND, "channel 2"),
    ):
        route.replace(moves, now)
        assert route.now[1] == channel
