"""What waits for a slow reader."""

from __future__ import annotations

from support.fake_runtime import state

import pausewatch as pw
from pausewatch._watch.pending import Pending

LOST = pw.Unavailable.of("connection lost")


def told(thread_id: str, revision: int, gap: bool = False, changed: bool = True) -> pw.State:
    return pw.State(state(thread_id, revision), gap, changed)


def broken(*thread_ids: str) -> pw.Disconnected:
    return pw.Disconnected(frozenset(thread_ids), LOST)


def read(*events: pw.Event) -> list[pw.Event]:
    """What a reader gets who comes after all of them."""
    pending = Pending()
    for event in events:
        pending.put(event)
    taken = []
    while pending:
        taken.append(pending.take())
    return taken


def test_of_each_thread_the_latest_state_waits_in_the_place_of_the_first() -> None:
    events = (told("a", 1), told("b", 1), told("a", 2), told("a", 3))
    assert read(*events) == [told("a", 3), told("b", 1)]


def test_a_gap_and_a_change_are_not_lost_with_the_state_that_had_them() -> None:
    assert read(told("a", 1, gap=True), told("a", 2)) == [told("a", 2, gap=True)]
    assert read(told("a", 2), told("a", 2, gap=True, changed=False)) == [told("a", 2, gap=True)]


def test_a_snapshot_stays_behind_its_states() -> None:
    complete = pw.SnapshotComplete()
    assert read(told("a", 1), complete, told("b", 1), told("a", 2)) == [told("a", 2), complete, told("b", 1)]


def test_a_break_takes_back_that_everything_was_told() -> None:
    complete = pw.SnapshotComplete()
    events = (told("a", 1), complete, broken("a"), told("a", 1, True, False), complete)
    assert read(*events) == [broken("a"), told("a", 1, gap=True), complete]


def test_breaks_are_told_as_one() -> None:
    events = (broken("a"), told("a", 1, True), broken("b"))
    assert read(*events) == [told("a", 1, True), broken("a", "b")]


def test_g7_what_waits_is_bounded_by_the_threads() -> None:
    flood: list[pw.Event] = []
    for revision in range(1_000):
        flood += [told("a", revision, True), told("b", revision), pw.SnapshotComplete(), broken("a", "b")]
    assert len(read(*flood)) == 3
