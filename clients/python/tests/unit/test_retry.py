"""When a call is tried again."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

import pytest
from grpc import StatusCode

import pausewatch as pw
from pausewatch._io.durations import MILLISECOND, SECOND
from pausewatch._io.retry import Attempts, backoff

UNAVAILABLE = pw.Unavailable.of("nobody listens")


def test_pauses_double_up_to_the_longest_and_are_random() -> None:
    bases = [25, 50, 100, 200, 400, 800, 1_000, 1_000]
    for _ in range(20):
        for base, pause in zip(bases, backoff(25 * MILLISECOND, SECOND), strict=False):
            assert base * MILLISECOND <= pause <= 2 * base * MILLISECOND
    assert len({next(backoff(SECOND, SECOND)) for _ in range(10)}) > 1
    assert all(pause >= SECOND for pause in islice(backoff(SECOND, SECOND), 100))


def test_only_what_found_nobody_is_tried_again() -> None:
    store = pw.StoreUnavailable(pw.Status(StatusCode.UNAVAILABLE, "full", "STORE_UNAVAILABLE"))
    for transient in (UNAVAILABLE, store):
        assert Attempts(5 * SECOND, 0).pause(transient, 0) > 0
    for final in (pw.CallError(pw.Status(StatusCode.INTERNAL, "")), pw.InvalidField.of("ttl", "is bad")):
        with pytest.raises(type(final)):
            Attempts(5 * SECOND, 0).pause(final, 0)


def limited(limit: str, retry_after: timedelta | None = None) -> pw.LimitExceeded:
    status = pw.Status(StatusCode.RESOURCE_EXHAUSTED, "", "LIMIT_EXCEEDED", {"limit": limit}, retry_after=retry_after)
    return pw.LimitExceeded(status)


@pytest.mark.parametrize(("retry_after", "wait"), [(timedelta(seconds=2), 2 * SECOND), (timedelta(0), 0), (None, SECOND)])
def test_too_many_calls_a_second_are_tried_again_after_the_time_that_the_server_says(
    retry_after: timedelta | None, wait: int
) -> None:
    for limit in ("calls-per-second", "calls-per-second-per-caller"):
        attempts = Attempts(60 * SECOND, 0)
        # Some milliseconds more, at random: those who were refused together must not come back as one.
        for base in (25, 50, 100):
            pause = attempts.pause(limited(limit, retry_after), 0)
            assert base * MILLISECOND <= pause - wait <= 2 * base * MILLISECOND


def test_a_wait_that_would_pass_the_deadline_is_not_begun() -> None:
    error = limited("calls-per-second", timedelta(seconds=4))
    with pytest.raises(pw.LimitExceeded) as raised:
        Attempts(4 * SECOND, 0).pause(error, 0)
    assert raised.value is error
    assert Attempts(5 * SECOND, 0).pause(error, 0) >= 4 * SECOND


def test_any_other_limit_is_not_tried_again() -> None:
    for limit in ("open-elicitations-per-caller", "streams", ""):
        with pytest.raises(pw.LimitExceeded):
            Attempts(5 * SECOND, 0).pause(limited(limit, timedelta(0)), 0)


def test_the_deadline_covers_attempts_and_pauses() -> None:
    attempts = Attempts(SECOND, now=7 * SECOND)
    assert attempts.left(7 * SECOND) == SECOND
    assert attempts.left(9 * SECOND) == 0
    with pytest.raises(pw.Unavailable):
        attempts.pause(UNAVAILABLE, 8 * SECOND - MILLISECOND)


def test_a_deadline_that_passed_says_how_long_it_was_and_what_came_before() -> None:
    exceeded = pw.DeadlineExceeded(pw.Status(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
    attempts = Attempts(2 * SECOND, 0)
    with pytest.raises(pw.DeadlineExceeded, match="^no answer within 2 s$"):
        attempts.pause(exceeded, 2 * SECOND)
    attempts.pause(UNAVAILABLE, 0)
    with pytest.raises(pw.DeadlineExceeded, match="no answer within 2 s; before: nobody listens") as error:
        attempts.pause(exceeded, 2 * SECOND)
    assert error.value.__cause__ is UNAVAILABLE


def test_the_first_attempt_fails_at_once_and_later_ones_wait_for_a_connection() -> None:
    attempts = Attempts(5 * SECOND, 0)
    assert not attempts.wait_for_ready
    attempts.pause(UNAVAILABLE, 0)
    assert attempts.wait_for_ready
