"""What a stopwatch has been charged."""

from __future__ import annotations

import pytest
from support.vectors import Json, cases, nanos, only

from pausewatch._io.durations import MAX_DURATION
from pausewatch._stopwatch.covered import Covered
from pausewatch._stopwatch.meter import Meter


@pytest.mark.parametrize("case", cases("meter.json"))
def test_vectors(case: Json) -> None:
    only(case, "name", "start", "steps")
    start = case["start"]
    only(start, "at_ms", "paused_ms", "limit_ms")
    meter = Meter(nanos(start["limit_ms"]), nanos(start["at_ms"]), nanos(start["paused_ms"]))
    actions = {"pause": meter.pause, "resume": meter.resume}
    readings = {"charged_ms": meter.charged, "left_ms": meter.left, "shown_ms": meter.elapsed, "remaining_ms": meter.remaining}
    for step in case["steps"]:
        only(step, "at_ms", "paused_ms", "do", "expect")
        now, paused_time = nanos(step["at_ms"]), nanos(step["paused_ms"])
        if "do" in step:
            actions[step["do"]](now, paused_time)
        for reading, expected in step.get("expect", {}).items():
            assert readings[reading](now, paused_time) == nanos(expected), (reading, step)


def test_a_downward_correction_is_charged_during_an_own_pause_too() -> None:
    meter = Meter(10, 0, 0)
    meter.settle(5, 4)
    meter.pause(5, 4)
    assert meter.charged(6, 1) == 4


def test_of_many_pauses_the_oldest_may_be_taken_for_one() -> None:
    covered = Covered()
    for begin in range(0, 200, 2):
        covered.add(begin, begin + 1)
    assert covered.beyond(190) == 5
    assert covered.beyond(0) >= 100, "never less than there is"
    covered.cut(193)
    assert covered.beyond(190) == 2
    covered.cut(0)
    assert covered.beyond(0) == 0


def test_huge_values_and_one_resume_too_many_are_harmless() -> None:
    meter = Meter(MAX_DURATION, 0, 0)
    assert meter.charged(0, MAX_DURATION) == 0
    meter.resume(1, MAX_DURATION)
    assert meter.remaining(2, MAX_DURATION) == MAX_DURATION - 2
    unlimited = Meter(None, 0, 0)
    assert (unlimited.remaining(9, 0), unlimited.left(9, 0), unlimited.elapsed(9, 0)) == (None, None, 9)
