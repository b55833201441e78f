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


def test_the_latest_state_of_a_thread_replaces_the_first_in_its_place() -> None:
    events = (state_event("a", 1), state_event("b", 1), state_event("a", 2), state_event("a", 3))
    assert read(*events) == [state_event("a", 3), state_event("b", 1)]


def test_gap_and_changed_survive_the_replacement_of_a_state() -> None:
    assert read(state_event("a", 1, gap=True), state_event("a", 2)) == [state_event("a", 2, gap=True)]
    assert read(state_event("a", 2), state_event("a", 2, gap=True, changed=False)) == [state_event("a", 2, gap=True)]


def test_a_snapshot_stays_behind_its_states() -> None:
    complete = pw.SnapshotComplete()
    assert read(state_event("a", 1), complete, state_event("b", 1), state_event("a", 2)) == [
        state_event("a", 2),
        complete,
        state_event("b", 1),
    ]


def test_a_disconnect_removes_a_pending_snapshot_complete() -> None:
    complete = pw.SnapshotComplete()
    events = (state_event("a", 1), complete, disconnected("a"), state_event("a", 1, True, False), complete)
    assert read(*events) == [disconnected("a"), state_event("a", 1, gap=True), complete]


def test_pending_disconnects_are_merged() -> None:
    events = (state_event("a", 1), disconnected("a"), state_event("b", 1), disconnected("b"))
    assert read(*events) == [state_event("a", 1), state_event("b", 1), disconnected("a", "b")]


def test_a_merged_disconnect_leaves_out_threads_that_are_connected_again() -> None:
    events = (disconnected("a", "b"), state_event("a", 1, True), disconnected("c"))
    assert read(*events) == [state_event("a", 1, True), disconnected("b", "c")]


def test_a_thread_that_is_disconnected_again_is_in_the_merged_disconnect() -> None:
    events = (disconnected("a", "b"), state_event("a", 1, True), disconnected("a"))
    assert read(*events) == [state_event("a", 1, True), disconnected("a", "b")]
    assert read(*events, state_event("a", 2, True)) == [disconnected("a", "b"), state_event("a", 2, True)]


def test_g7_pending_events_are_bounded_by_the_threads() -> None:
    flood: list[pw.Event] = []
    for revision in range(1_000):
        flood += [state_event("a", revision, True), state_event("b", revision), pw.SnapshotComplete(), disconnected("a", "b")]
    assert len(read(*flood)) == 3
