"""How long a thread has been paused as far as is known, on a moved clock."""

from __future__ import annotations

import pytest
from support.vectors import Json, cases, nanos, only

from pausewatch._io.durations import SECOND
from pausewatch._stopwatch.paused_time import Moment, PausedTimeTracker, Seen, Version


def apply(tracker: PausedTimeTracker, at: int, revision: int, paused: bool, total: int, slept: int = 0, epoch: int = 1) -> bool:
    return tracker.apply(Moment(at, slept), Seen(Version(epoch, revision), paused, total))


def started() -> PausedTimeTracker:
    """A tracker that started at 0, with a grace of 30 s."""
    return PausedTimeTracker(0, 30 * SECOND)


@pytest.mark.parametrize("case", cases("paused-time.json"))
def test_vectors(case: Json) -> None:
    only(case, "name", "steps")
    tracker = started()
    for step in case["steps"]:
        at = nanos(step["at_ms"])
        if "state" in step:
            only(step, "at_ms", "state", "slept_ms")
            state = step["state"]
            only(state, "epoch", "revision", "paused", "total_ms")
            slept = nanos(step.get("slept_ms", 0))
            apply(tracker, at, state["revision"], state["paused"], nanos(state["total_ms"]), slept, state["epoch"])
        elif "disconnect" in step:
            only(step, "at_ms", "disconnect", "since_ms")
            tracker.disconnect(at, nanos(step.get("since_ms", step["at_ms"])))
        else:
            only(step, "at_ms", "expect")
            assert {"paused_ms": tracker.paused_time(at) / 1e6, "paused": tracker.is_paused(at)} == step["expect"], step


def test_waiters_check_again_when_a_pause_ends_and_when_an_assumption_begins_or_is_corrected() -> None:
    tracker = started()
    assert apply(tracker, 0, 1, paused=False, total=0), "it was cut off until then"
    assert not tracker.disconnect(10, 10), "nobody waits for the resume of a running thread"
    assert apply(tracker, 25, 2, paused=True, total=9)
    assert not apply(tracker, 26, 3, paused=True, total=10)
    assert tracker.disconnect(30, 30), "those who wait for the resume must now see to themselves"
    assert apply(tracker, 40, 3, paused=True, total=24)
    assert apply(tracker, 50, 4, paused=False, total=34)


def test_a_join_gets_its_baseline_with_the_next_state() -> None:
    tracker = started()
    apply(tracker, 0, 1, paused=False, total=0)
    tracker.disconnect(10, 10)
    paused_time, joined = tracker.join(15)
    assert (paused_time, joined.value) == (0, None)
    apply(tracker, 20, 3, paused=False, total=10)
    assert joined.value == (20, 10, 0)
    _, later = tracker.join(21)
    assert later.value is None, "who joins later waits for a state of its own, though the link seems to be up"
    tracker.apply(Moment(30, 0), Seen(Version(1, 4), paused=True, total=13, paused_for=3))
    assert later.value == (30, 13, 3)


def test_g1_a_pause_counts_until_the_last_join_before_the_link_was_known_to_be_dead() -> None:
    tracker = started()
    apply(tracker, 0, 1, paused=True, total=0)
    assert tracker.join(38 * SECOND)[0] == 38 * SECOND
    tracker.disconnect(40 * SECOND, 5 * SECOND)
    paused_time = tracker.paused_time(50 * SECOND)
    assert (tracker.is_paused(38 * SECOND), paused_time) == (False, 38 * SECOND), "else time before the join would be charged"
    tracker.join(45 * SECOND)
    assert tracker.paused_time(50 * SECOND) == 38 * SECOND
