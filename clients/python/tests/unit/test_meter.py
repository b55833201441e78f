"""What one stopwatch is charged, on a moved clock. Moments and lengths are whole seconds."""

from __future__ import annotations

from pausewatch._io.durations import LONGEST
from pausewatch._stopwatch.meter import Meter


def test_g3_charged_is_wall_time_less_the_threads_paused_time() -> None:
    meter = Meter(10, 0, 0)
    assert meter.charged(5, 2) == 3
    assert meter.left(12, 2) == 0
    assert meter.left(11, 2) == 1
    assert meter.left(15, 2) == -3


def test_pauses_nest() -> None:
    meter = Meter(10, 0, 0)
    meter.pause(1, 0)
    meter.pause(2, 0)
    meter.resume(3, 0)
    assert meter.is_paused
    assert meter.charged(4, 0) == 1
    meter.resume(5, 0)
    assert not meter.is_paused
    assert meter.charged(6, 0) == 2


def test_g3_overlapping_pauses_count_once_and_never_below_zero() -> None:
    meter = Meter(10, 0, 0)
    # Its own from 0 to 10, the thread's from 5 to 15.
    meter.pause(0, 0)
    meter.resume(10, 5)
    assert meter.charged(15, 10) == 0
    assert meter.charged(16, 10) == 1


def test_paused_time_from_before_its_own_pause_is_not_lost() -> None:
    meter = Meter(10, 0, 0)
    # Cut off: 4 s were charged, of which 3 were paused; that is learnt 1 s into a pause of its own.
    meter.pause(4, 0)
    assert meter.charged(5, 3) == 2, "1 s of the 3 may be the last one"
    meter.resume(5, 3)
    assert meter.charged(6, 3) == 3


def test_less_paused_time_than_was_assumed_is_charged_after_all() -> None:
    meter = Meter(10, 0, 0)
    assert meter.charged(5, 4) == 1
    meter.settle(5, 4)
    assert meter.charged(5, 1) == 4
    meter.pause(5, 4)
    assert meter.charged(6, 1) == 4, "during a pause of its own too"


def test_what_is_shown_never_goes_backwards_and_adds_up() -> None:
    meter = Meter(10, 0, 0)
    assert meter.elapsed(5, 0) == 5
    assert meter.elapsed(6, 4) == 5, "late paused time of 4 s is a standstill"
    assert meter.remaining(6, 4) == 5
    assert meter.elapsed(10, 4) == 6
    assert meter.left(14, 4) == 0, "both end together"
    assert meter.remaining(14, 4) == 0


def test_more_paused_time_than_time_is_not_spent_later() -> None:
    meter = Meter(10, 0, 0)
    assert meter.charged(2, 3_600) == 0
    assert meter.charged(5, 3_600) == 3


def test_what_a_thread_was_paused_before_is_not_credited() -> None:
    meter = Meter(10, 1, 500)
    assert meter.charged(2, 500) == 1
    assert meter.charged(5, 502) == 2


def test_huge_values_and_one_resume_too_many_are_harmless() -> None:
    meter = Meter(LONGEST, 0, 0)
    assert meter.charged(0, LONGEST) == 0
    meter.resume(1, LONGEST)
    assert meter.remaining(2, LONGEST) == LONGEST - 2
    unlimited = Meter(None, 0, 0)
    assert (unlimited.remaining(9, 0), unlimited.left(9, 0), unlimited.elapsed(9, 0)) == (None, None, 9)
