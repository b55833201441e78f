"""A stopwatch of thread "t" that awaits "child": limits of 10 s, on a moved clock."""

from __future__ import annotations

import pytest
from support.fake_runtime import state
from support.stopwatch_stage import LOST, Stage, elapsed

from pausewatch._stopwatch.ticking import Ticking

PARENT, CHILD = "t", "child"


class Family(Stage):
    """Threads that are heard, and what each has been paused so far."""

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
        """Every open stream sends its snapshot, until all threads are on one."""
        known: set[int] = set()
        while fresh := [stream for stream in self.runtime.streams if id(stream) not in known]:
            for stream in fresh:
                known.add(id(stream))
                for thread_id in stream.request.thread_ids:
                    stream.state(thread_id, self.revision, 0, totals.get(thread_id, 0))
                stream.complete()

    def set(self, thread_id: str, *, paused: bool, total: float) -> None:
        self.revision += 1
        self.stream.state(thread_id, self.revision, int(paused), total)

    def answer_all(self, *paused: str) -> None:
        """Each of the questions that are under way."""
        for asked in list(self.runtime.calls):
            thread_id = asked.call.request.thread_id  # type: ignore[attr-defined]
            asked.answer(state(thread_id, self.revision + 1, int(thread_id in paused)))


def reconnect(family: Family, **totals: float) -> float:
    """Moves to when a stream is open again, which tells these totals, and returns that moment."""
    while not family.runtime.streams:
        family.move_to(family.runtime.seconds + 0.1)
    family.connected = True
    family.revision += 10
    family.hear(**totals)
    return family.runtime.seconds


def test_g3_it_stands_still_while_any_of_them_is_paused_and_a_moment_counts_once() -> None:
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


def test_g1_every_thread_is_asked_before_it_expires() -> None:
    family = Family()
    ticking = family.parent(CHILD, "other")
    family.move_to(10)
    assert sorted(asked.call.request.thread_id for asked in family.runtime.calls) == ["child", "other", "t"]  # type: ignore[attr-defined]
    family.answer_all(CHILD)
    assert (ticking.is_expired, ticking.is_paused) == (False, True)
    family.move_to(50)
    family.revision += 1
    family.set(CHILD, paused=False, total=40)
    family.answer_all()
    assert family.expiries() == [50]


def test_it_counts_as_long_as_one_block_that_awaits_it_lives() -> None:
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
    assert family.expiries() == [15], "its own thread alone was asked"


def test_a_child_that_is_paused_already_counts_from_when_it_is_awaited() -> None:
    family = Family()
    ticking = family.linked()
    family.move_to(4)
    ticking.await_thread(CHILD)
    family.stream.state(CHILD, 7, 1, 500)
    family.stream.complete()
    family.hear()
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
def test_g1_of_a_gap_as_much_counts_as_is_possible(parent: float, child: float, counts: float) -> None:
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


def test_g3_what_was_seen_before_a_gap_does_not_count_within_it() -> None:
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


def test_g3_nor_does_what_was_before_the_child_was_awaited() -> None:
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


def test_g2_cut_off_a_child_that_was_paused_counts_for_the_grace_which_is_one_budget() -> None:
    family = Family(grace=5)
    ticking = family.parent(CHILD)
    family.move_to(1)
    family.set(CHILD, paused=True, total=0)
    family.move_to(2)
    family.disconnect()
    family.move_to(6.9)
    assert (ticking.is_paused, elapsed(ticking)) == (True, 1)
    family.move_to(60)
    assert family.expiries() == [16.25], "1 s, the pause until 7, its other 9 s, and the least time of a question"


def test_g2_a_child_that_cannot_be_asked_does_not_keep_it() -> None:
    family = Family(grace=5)
    family.parent(CHILD)
    family.move_to(10)
    while family.runtime.seconds < 20 and not family.expiries():
        for asked in list(family.runtime.calls):
            asked.answer(state(PARENT, 1) if asked.call.request.thread_id == PARENT else LOST)  # type: ignore[attr-defined]
        family.move_to(family.runtime.seconds + 0.25)
    assert family.expiries() == [15]


def test_what_ended_awaits_nothing_and_follows_nobody() -> None:
    family = Family()
    ticking = family.parent(CHILD)
    ticking.stop()
    ticking.await_thread("late")
    ticking.unawait_thread("late")
    ticking.unawait_thread(CHILD)
    family.move_to(40)
    assert (family.runtime.streams, family.runtime.timers) == ([], 0)
