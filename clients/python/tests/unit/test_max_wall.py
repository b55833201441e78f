"""The limit on wall time, which no pause and no question extends."""

from __future__ import annotations

from support.fake_runtime import wire_state
from support.stopwatch_stage import Stage, elapsed

import pausewatch as pw


def test_a_pause_of_the_thread_does_not_extend_it_and_no_confirmation_is_requested() -> None:
    stage = Stage()
    ticking = stage.linked(max_wall=60)
    stage.move_to(4)
    stage.stream.state("t", 2, count=1)
    stage.move_to(59.9)
    assert not ticking.is_expired
    stage.move_to(60)
    assert (stage.expiries(), ticking.ended_by, elapsed(ticking)) == ([60], pw.EndedBy.MAX_WALL, 4)
    assert stage.runtime.calls == []


def test_an_own_pause_does_not_extend_it() -> None:
    stage = Stage()
    ticking = stage.linked(max_wall=60)
    ticking.pause()
    stage.move_to(61)
    assert (stage.expiries(), ticking.ended_by) == ([60], pw.EndedBy.MAX_WALL)


def test_an_unreachable_coordinator_does_not_extend_it() -> None:
    for lost in (False, True):
        stage = Stage()
        ticking = stage.linked(max_wall=12)
        stage.move_to(10)
        if lost:
            stage.disconnect()
        stage.move_to(13)
        assert (stage.expiries(), ticking.ended_by) == ([12], pw.EndedBy.MAX_WALL)


def test_the_limit_ends_it_when_that_is_earlier() -> None:
    stage = Stage()
    ticking = stage.linked(max_wall=60)
    stage.move_to(10)
    stage.answer(wire_state("t", 1))
    assert (stage.expiries(), ticking.ended_by) == ([10], pw.EndedBy.LIMIT)
    stage.move_to(61)
    assert (stage.expiries(), ticking.ended_by) == ([10], pw.EndedBy.LIMIT)


def test_it_ends_a_stopwatch_without_a_limit_and_not_a_stopped_one() -> None:
    stage = Stage()
    unlimited, stopped = stage.linked(limit=None, max_wall=60), stage.start(max_wall=60)
    stopped.stop()
    stage.move_to(61)
    assert (stage.expiries(), unlimited.ended_by, stopped.ended_by) == ([60], pw.EndedBy.MAX_WALL, None)
    stage.move_to(120)
    assert stage.runtime.timers == 0
