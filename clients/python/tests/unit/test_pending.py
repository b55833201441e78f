"""What waits for a slow reader."""

from __future__ import annotations

from support.fake_runtime import state

import pausewatch as pw
from pausewatch._watch.pending import Pending

LOST = pw.Unavailable.of("connection lost")


def state_event(thread_id: str, revision: int, gap: bool = False, changed: bool = True) -> pw.State:
    return pw.State(state(thread_id, revision), gap, changed)


def disconnected(*thread_ids: str) -> pw.Disconnected:
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
    events = (state_event("a", 1), state_event("b", 1), state_event("a", 2), state_event("a", 3))
    assert read(*events) == [state_event("a", 3), state_event("b", 1)]


def test_a_gap_and_a_change_are_not_lost_with_the_state_that_had_them() -> None:
    assert read(state_event("a", 1, gap=True), state_event("a", 2)) == [state_event("a", 2, gap=True)]
    assert read(state_event("a", 2), state_event("a", 2, gap=True, changed=False)) == [state_event("a", 2, gap=True)]


def test_a_snapshot_stays_behind_its_states() -> None:
    complete = pw.SnapshotComplete()
    assert read(state_event("a", 1), complete, state_event("b", 1), state_event("a", 2)) == [
        state_event("a", 2),
        complete,
        state_event("b", 1),
    ]


def test_a_break_takes_back_that_everything_was_told() -> None:
    complete = pw.SnapshotComplete()
    events = (state_event("a", 1), complete, disconnected("a"), state_event("a", 1, True, False), complete)
    assert read(*events) == [disconnected("a"), state_event("a", 1, gap=True), complete]


def test_breaks_are_told_as_one() -> None:
    events = (disconnected("a"), state_event("a", 1, True), disconnected("b"))
    assert read(*events) == [state_event("a", 1, True), disconnected("a", "b")]


def test_g7_what_waits_is_bounded_by_the_threads() -> None:
    flood: list[pw.Event] = []
    for revision in range(1_000):
        flood += [state_event("a", revision, True), state_event("b", revision), pw.SnapshotComplete(), disconnected("a", "b")]
    assert len(read(*flood)) == 3
