"""A stopwatch of thread "t" that awaits "child": limits of 10 s, on a moved clock."""

from __future__ import annotations

import pytest
from support.fake_runtime import wire_state
from support.stopwatch_stage import LOST, Stage, elapsed

from pausewatch._stopwatch.ticking import Ticking
from pausewatch.v1 import elicitation_service_pb2 as pb

PARENT, CHILD = "t", "child"


class Family(Stage):
    """Threads that are linked, and how long each has been paused so far."""

    def __init__(self, grace: float = 30) -> None:
        super().__init__(grace)
        self.revision = 1

    def parent(self, *awaited: str) -> Ticking:
        ticking = self.linked(PARENT)
        for thread_id in awaited:
            ticking.await_thread(thread_id)
            self.hear()
        return ticking

    def hear(self, **totals: float) -> None:
        """The open stream answers all requests."""
        while (request := self.stream.request) is not None:
            for thread_id in request.add:
                self.stream.state(thread_id, self.revision, 0, totals.get(thread_id, 0))
            self.stream.complete()

    def set(self, thread_id: str, *, paused: bool, total: float) -> None:
        self.revision += 1
        self.stream.state(thread_id, self.revision, int(paused), total)

    def answer_all(self, *paused: str) -> None:
        """Answers the confirmations that are under way, and those that wait for them."""
        while self.confirming:
            self.answer(*(wire_state(each, self.revision + 1, int(each in paused)) for each in self.confirming))


def reconnect(family: Family, **totals: float) -> float:
    """Moves to when a stream is open again, which sends these totals, and returns that moment."""
    while not family.runtime.streams:
        family.move_to(family.runtime.seconds + 0.1)
    family.connected = True
    family.revision += 10
    family.hear(**totals)
    return family.runtime.seconds


def test_g3_it_stands_still_while_any_thread_is_paused_and_overlaps_count_once() -> None:
    family = Family()
    ticking = family.parent(CHILD)
    family.move_to(2)
    family.set(CHILD, paused=True, total=0)
    family.move_to(5)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 2)
    family.set(PARENT, paused=True, total=0)
    family.move_to(100)
    family.set(CHILD, paused=False, total=98)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 2)
    family.move_to(200)
    family.set(PARENT, paused=False, total=195)
    family.move_to(201)
    assert (ticking.is_paused, elapsed(ticking)) == (False, 3)
    family.move_to(208)
    family.answer_all()
    assert family.expiries() == [208]


def test_g1_every_thread_is_confirmed_before_it_expires() -> None:
    family = Family()
    ticking = family.parent(CHILD, "other")
    family.move_to(10)
    family.answer_all(CHILD)
    assert (ticking.is_expired, ticking.is_paused) == (False, True)
    family.move_to(50)
    family.revision += 1
    family.set(CHILD, paused=False, total=40)
    family.answer_all()
    assert family.expiries() == [50]


def test_a_thread_counts_until_the_last_block_that_awaits_it_ends() -> None:
    family = Family()
    ticking = family.parent(CHILD, CHILD)
    family.move_to(1)
    family.set(CHILD, paused=True, total=0)
    family.move_to(5)
    ticking.unawait_thread(CHILD)
    family.move_to(6)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 1)
    ticking.unawait_thread(CHILD)
    assert not ticking.is_paused
    family.move_to(8)
    assert elapsed(ticking) == 3
    family.move_to(15)
    family.answer_all(CHILD)
    assert family.expiries() == [15], "only its own thread was confirmed"


def test_a_paused_child_counts_from_the_moment_it_is_awaited() -> None:
    family = Family()
    ticking = family.linked()
    family.move_to(4)
    ticking.await_thread(CHILD)
    family.stream.state(CHILD, 7, 1, 500)
    family.stream.complete()
    family.set(CHILD, paused=True, total=500)
    family.move_to(60)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 4)


def test_a_cycle_freezes_both_while_either_is_paused() -> None:
    family = Family()
    ticking, other = family.parent(CHILD), family.start(CHILD)
    other.await_thread(PARENT)
    family.hear()
    family.move_to(3)
    family.set(CHILD, paused=True, total=0)
    family.move_to(30)
    assert (elapsed(ticking), elapsed(other)) == (3, 3)
    family.set(CHILD, paused=False, total=27)
    family.move_to(37)
    family.answer_all()
    assert family.expiries() == [37, 37]


@pytest.mark.parametrize(("parent", "child", "counts"), [(0.25, 0.5, 0.75), (0.75, 0.5, 1), (0, 1, 1), (1, 1, 1), (0, 0, 0)])
def test_g1_a_gap_counts_as_the_largest_possible_union(parent: float, child: float, counts: float) -> None:
    family = Family(grace=120)
    ticking = family.parent(CHILD)
    family.move_to(1)
    family.set(CHILD, paused=True, total=0)
    family.move_to(3)
    family.set(CHILD, paused=False, total=2)
    family.disconnect()
    family.move_to(60)
    while not family.runtime.streams:
        family.move_to(family.runtime.seconds + 0.1)
    gap = family.runtime.seconds - 3
    reconnect(family, t=parent * gap, child=2 + child * gap)
    family.move_to(family.runtime.seconds + 1)
    # 1 s before, and 1 s after.
    assert not ticking.is_expired
    assert elapsed(ticking) == pytest.approx(2 + (1 - counts) * gap)


def test_g3_pauses_before_a_gap_do_not_count_within_it() -> None:
    family = Family(grace=120)
    ticking = family.parent(CHILD)
    family.move_to(1)
    family.set(PARENT, paused=True, total=0)
    family.set(CHILD, paused=True, total=0)
    family.move_to(31)
    family.stream.heartbeat()  # The gap begins with the last message.
    family.disconnect()
    family.move_to(33)
    now = reconnect(family, t=30, child=30)
    assert elapsed(ticking) == pytest.approx(now - 30)


def test_g3_pauses_before_the_child_was_awaited_do_not_count() -> None:
    family = Family(grace=120)
    ticking = family.parent()
    family.move_to(1)
    family.set(PARENT, paused=True, total=0)
    family.move_to(21)
    family.set(PARENT, paused=False, total=20)
    family.move_to(25)
    ticking.await_thread(CHILD)
    family.connected = False
    for stream in list(family.runtime.streams):
        stream.end(LOST)
    family.move_to(40)
    now = reconnect(family, t=20 + 10, child=10)
    assert elapsed(ticking) == pytest.approx(1 + 4 + max(0, now - 25 - 20))


def test_g2_after_a_disconnect_a_paused_child_counts_for_the_grace_which_is_one_budget() -> None:
    family = Family(grace=5)
    ticking = family.parent(CHILD)
    family.move_to(1)
    family.set(CHILD, paused=True, total=0)
    family.move_to(2)
    family.disconnect()
    family.move_to(6.9)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 1)
    family.move_to(60)
    [expiry] = family.expiries()
    assert 16.25 <= expiry <= 16.5, "1 s, the pause until 7, its other 9 s, and the least time of a question"


def test_g2_a_child_that_cannot_be_confirmed_does_not_delay_it_beyond_the_grace() -> None:
    family = Family(grace=5)
    family.parent(CHILD)
    family.move_to(10)
    [parent_only] = family.confirming
    assert parent_only == PARENT
    family.answer(wire_state(PARENT, 1))
    [child_only] = family.confirming
    family.stream.refuse(pb.Refusal(code=7, reason="THREAD_FORBIDDEN", thread_ids=[child_only]))
    family.move_to(20)
    assert family.expiries() == [15]


def test_an_ended_stopwatch_awaits_and_follows_no_thread() -> None:
    family = Family()
    ticking = family.parent(CHILD)
    ticking.stop()
    ticking.await_thread("late")
    ticking.unawait_thread("late")
    ticking.unawait_thread(CHILD)
    family.move_to(40)
    assert (family.runtime.streams, family.runtime.timers) == ([], 0)
