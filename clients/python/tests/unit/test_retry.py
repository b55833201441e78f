"""When a call is tried again."""

from __future__ import annotations

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
