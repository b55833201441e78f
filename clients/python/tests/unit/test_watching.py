"""The stream of a watch and the events that it delivers, on a moved clock."""

from __future__ import annotations

import pytest
from support.fake_runtime import FakeRuntime, Stream

import pausewatch as pw
from pausewatch._io.durations import SECOND
from pausewatch._io.route import Route
from pausewatch._watch.requests import MAX_IDS
from pausewatch._watch.watching import Watching
from pausewatch.v1 import elicitation_service_pb2 as pb

LOST = pw.Unavailable.of("connection lost")


def forbidden(*thread_ids: str) -> pb.Refusal:
    return pb.Refusal(code=7, reason="THREAD_FORBIDDEN", message="no", thread_ids=thread_ids)


def limited() -> pb.Refusal:
    refusal = pb.Refusal(code=8, reason="LIMIT_EXCEEDED", message="too many")
    refusal.retry_after.FromSeconds(3)
    return refusal


class Watcher:
    """A watch, and what it has reported."""

    def __init__(self, *thread_ids: str, everything: bool = False, elicitations: bool = False) -> None:
        self.runtime = FakeRuntime()
        self.reported: list[pw.Event] = []
        setup = pb.WatchRequest(all_threads=everything, include_elicitations=elicitations)
        self.watching = Watching(self.runtime, 5 * SECOND, self.reported.append, setup=setup)
        self.add(*thread_ids)

    @property
    def stream(self) -> Stream:
        """The only stream."""
        [stream] = self.runtime.streams
        return stream

    @property
    def sent(self) -> list[tuple[list[str], list[str]]]:
        """What was added and removed on the stream, in each request."""
        return [(list(request.add), list(request.remove)) for request in self.stream.sent]

    def add(self, *thread_ids: str) -> None:
        for thread_id in thread_ids:
            self.watching.add(thread_id)
        self.watching.start()

    def serve(self, revision: int = 1) -> None:
        """Answers the request that is unanswered, as a server on which nothing happened."""
        assert self.stream.request is not None
        for thread_id in list(self.stream.request.add):
            self.stream.state(thread_id, revision)
        self.stream.complete()

    def reconnect(self) -> None:
        """Until the stream is opened again."""
        while not self.runtime.streams:
            self.runtime.move_to(self.runtime.seconds + 0.01)

    def take_reported(self) -> list[tuple[object, ...]]:
        """The events since the last call, in short."""
        reported = self.reported.copy()
        self.reported.clear()
        short: list[tuple[object, ...]] = []
        for event in reported:
            match event:
                case pw.State(state, gap, changed):
                    short.append((state.thread_id, state.revision, gap, changed))
                case pw.SnapshotComplete():
                    short.append(("complete",))
                case pw.Disconnected(thread_ids):
                    short.append(("disconnected", *sorted(thread_ids)))
        return short


def test_it_reports_every_thread_then_snapshot_complete_then_changes() -> None:
    watcher = Watcher("a", "b", "a")
    assert watcher.sent == [(["a", "b"], [])]
    watcher.serve()
    assert watcher.take_reported() == [("a", 1, True, True), ("b", 1, True, True), ("complete",)]
    watcher.stream.state("a", 2)
    watcher.stream.state("a", 2)
    assert watcher.take_reported() == [("a", 2, False, True)], "and nothing twice"


def test_a_disconnect_is_reported_once_and_the_first_state_after_it_has_a_gap() -> None:
    watcher = Watcher("a", "b")
    watcher.serve()
    watcher.take_reported()
    watcher.stream.end(LOST)
    assert watcher.take_reported() == [("disconnected", "a", "b")]
    watcher.reconnect()
    watcher.stream.end(LOST)
    watcher.reconnect()
    assert watcher.take_reported() == []
    watcher.stream.state("a", 1)
    watcher.stream.state("b", 4)
    watcher.stream.complete()
    assert watcher.take_reported() == [("a", 1, True, False), ("b", 4, True, True), ("complete",)]


def test_after_a_disconnect_the_whole_set_is_sent_on_a_new_connection() -> None:
    watcher = Watcher("a")
    assert not watcher.stream.own_connection
    watcher.serve()
    watcher.add("b")
    watcher.stream.end(LOST)
    watcher.watching.add("c")
    watcher.reconnect()
    assert watcher.stream.own_connection
    assert watcher.sent == [(["a", "b", "c"], [])]


def test_retry_delays_grow_and_are_reset_by_an_answer() -> None:
    watcher = Watcher("a")
    for longest in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6, 6, 6):
        watcher.stream.end(LOST)
        assert watcher.runtime.streams == []
        watcher.runtime.move_to(watcher.runtime.seconds + longest)
        # A stream without a message ends after 5 s, and the next one comes 3 s later at the earliest.
        assert len(watcher.runtime.streams) == 1
    watcher.serve()
    watcher.stream.end(LOST)
    watcher.runtime.move_to(watcher.runtime.seconds + 0.1)
    assert len(watcher.runtime.streams) == 1


def test_silence_of_30_s_is_a_disconnect_and_heartbeats_prevent_it() -> None:
    watcher = Watcher("a")
    watcher.serve()
    first = watcher.stream
    watcher.runtime.move_to(29)
    watcher.stream.heartbeat()
    watcher.runtime.move_to(58)
    assert watcher.stream is first
    watcher.take_reported()
    watcher.runtime.move_to(59)
    assert watcher.runtime.streams == []
    [event] = watcher.reported
    assert isinstance(event, pw.Disconnected)
    assert str(event.error) == "the watch was silent for 30 s"


def test_a_first_answer_after_the_deadline_is_a_disconnect() -> None:
    watcher = Watcher("a")
    watcher.runtime.move_to(5)
    assert watcher.take_reported() == [("disconnected", "a")]


def test_an_unanswered_confirmation_on_a_silent_stream_is_requested_on_another() -> None:
    watcher = Watcher("a")
    watcher.serve()
    watcher.runtime.move_to(1)
    for timeout, first in ((0.25, True), (2, False), (2, False)):
        stream, now = watcher.stream, watcher.runtime.seconds
        watcher.watching.confirm("a", watcher.runtime.now()) if first else None
        assert list(stream.sent[-1].confirm) == ["a"], "before the set"
        watcher.runtime.move_to(now + timeout - 0.001)
        assert watcher.stream is stream
        watcher.runtime.move_to(now + timeout)
        assert watcher.runtime.streams == []
        while not watcher.runtime.streams:
            watcher.runtime.move_to(watcher.runtime.seconds + 0.001)
        assert watcher.runtime.seconds <= now + timeout + 0.2


def test_a_stream_that_has_not_answered_has_2_s_for_a_confirmation_also_after_a_heartbeat() -> None:
    watcher = Watcher("a")
    stream = watcher.stream
    watcher.runtime.move_to(1)
    stream.heartbeat()
    watcher.watching.confirm("a", watcher.runtime.now())
    watcher.runtime.move_to(2.9)
    assert watcher.stream is stream
    watcher.runtime.move_to(3)
    assert watcher.runtime.streams == []


def test_a_confirmation_on_a_stream_that_is_not_silent_waits() -> None:
    watcher = Watcher("a")
    watcher.serve()
    stream = watcher.stream
    watcher.watching.confirm("a", watcher.runtime.now())
    for step in range(1, 20):
        watcher.runtime.move_to(step / 5)
        stream.state("a", 1 + step)
    assert watcher.stream is stream
    assert len(stream.sent) == 2, "one question"


def test_a_confirmation_shortens_the_retry_delay() -> None:
    watcher = Watcher("a")
    for _ in range(8):
        watcher.stream.end(LOST)
        watcher.reconnect()
    watcher.stream.end(LOST)
    now = watcher.runtime.seconds
    watcher.watching.confirm("a", watcher.runtime.now())
    watcher.runtime.move_to(now + 0.2)
    assert len(watcher.runtime.streams) == 1
    watcher.watching.cancel_confirmation("a")
    watcher.stream.end(LOST)
    watcher.runtime.move_to(watcher.runtime.seconds + 2.9)
    assert watcher.runtime.streams == []


def test_changes_during_a_request_share_the_next_one() -> None:
    watcher = Watcher("a")
    for thread_id in "bcd":
        watcher.add(thread_id)
    watcher.watching.remove("a")
    watcher.watching.remove("c")
    watcher.serve()
    assert watcher.sent == [(["a"], []), (["b", "d"], ["a"])]
    assert watcher.take_reported() == [], "not complete: b and d are to come"
    watcher.serve()
    assert watcher.take_reported() == [("b", 1, True, True), ("d", 1, True, True), ("complete",)]


def test_a_thread_that_is_removed_and_added_again_gets_its_state() -> None:
    watcher = Watcher("a", "b")
    watcher.serve()
    watcher.take_reported()
    watcher.add("c")
    watcher.watching.remove("a")
    watcher.add("a")
    watcher.serve()
    watcher.serve(revision=2)
    assert watcher.sent[1:] == [(["c"], []), (["a"], [])]
    assert watcher.take_reported() == [("c", 1, True, True), ("a", 2, True, True), ("complete",)]


def test_a_large_set_is_sent_in_requests_of_500_ids_one_after_the_other() -> None:
    watcher = Watcher(*map(str, range(2 * MAX_IDS + 5)))
    for sent in (1, 2, 3):
        assert len(watcher.stream.sent) == sent
        assert ("complete",) not in watcher.take_reported()
        watcher.serve()
    assert [len(request.add) for request in watcher.stream.sent] == [MAX_IDS, MAX_IDS, 5]
    assert watcher.take_reported()[-1] == ("complete",)


def test_a_set_that_becomes_empty_needs_no_stream() -> None:
    watcher = Watcher("a", "b")
    watcher.watching.remove("a")
    watcher.watching.remove("never was")
    assert len(watcher.runtime.streams) == 1
    watcher.watching.remove("b")
    assert (watcher.runtime.streams, watcher.runtime.timers) == ([], 0)
    watcher.add("c")
    assert watcher.sent == [(["c"], [])]


def test_a_forbidden_thread_is_reported_and_the_others_continue() -> None:
    watcher = Watcher("a", "no", "b")
    watcher.stream.refuse(forbidden("no"))
    [event] = watcher.reported
    assert isinstance(event, pw.Disconnected)
    assert isinstance(event.error, pw.PermissionDenied)
    assert watcher.take_reported() == [("disconnected", "no")]
    assert watcher.sent[1:] == [(["a", "b"], [])]
    watcher.serve()
    assert watcher.take_reported() == [("a", 1, True, True), ("b", 1, True, True), ("complete",)]
    watcher.stream.end(LOST)
    assert watcher.take_reported() == [("disconnected", "a", "b")]
    watcher.reconnect()
    assert watcher.sent == [(["a", "no", "b"], [])], "the next server may allow it"


def test_a_refusal_is_reported_once_also_after_a_disconnect() -> None:
    watcher = Watcher("t")
    watcher.serve()
    watcher.take_reported()
    watcher.stream.end(LOST)
    assert watcher.take_reported() == [("disconnected", "t")]
    for reported in ([("disconnected", "t")], []):
        watcher.reconnect()
        watcher.stream.refuse(forbidden("t"))
        assert watcher.take_reported() == [*reported, ("complete",)]
        watcher.stream.end(LOST)
        assert watcher.take_reported() == [], "of the refused one nothing was heard since"


def test_the_snapshot_is_complete_also_if_all_threads_are_forbidden() -> None:
    watcher = Watcher("no")
    watcher.stream.refuse(forbidden("no"))
    assert watcher.take_reported() == [("disconnected", "no"), ("complete",)]
    assert len(watcher.stream.sent) == 1


def test_a_request_refused_by_a_limit_is_sent_again_and_delays_no_confirmation() -> None:
    watcher = Watcher("a")
    watcher.serve()
    watcher.take_reported()
    watcher.add("b")
    watcher.stream.refuse(limited())
    assert watcher.take_reported() == [("disconnected", "b")]
    watcher.watching.confirm("a", watcher.runtime.now())
    assert watcher.stream.request is not None
    assert list(watcher.stream.request.confirm) == ["a"]
    watcher.stream.complete()
    watcher.runtime.move_to(2.9)
    assert watcher.stream.request is None
    watcher.runtime.move_to(3)
    watcher.serve()
    assert watcher.take_reported() == [("b", 1, True, True), ("complete",)]


def test_a_watch_of_all_threads_reports_paused_ones_and_then_every_change() -> None:
    watcher = Watcher(everything=True, elicitations=True)
    [request] = watcher.stream.sent
    assert (request.all_threads, request.include_elicitations, list(request.add)) == (True, True, [])
    watcher.stream.state("paused", 5, count=1)
    watcher.stream.complete()
    watcher.stream.state("new", 6, count=1)
    watcher.stream.state("new", 7)
    watcher.stream.state("new", 8, count=1)
    assert watcher.take_reported() == [
        ("paused", 5, True, True),
        ("complete",),
        ("new", 6, False, True),
        ("new", 7, False, True),
        ("new", 8, False, True),
    ]


def test_a_watch_of_all_threads_adds_those_that_were_paused_before_a_disconnect() -> None:
    watcher = Watcher(everything=True)
    for thread_id in ("a", "b", "c"):
        watcher.stream.state(thread_id, 1, count=1)
    watcher.stream.complete()
    watcher.stream.state("b", 2)
    watcher.take_reported()
    watcher.stream.end(LOST)
    watcher.reconnect()
    [request] = watcher.stream.sent
    assert (request.all_threads, list(request.add)) == (True, ["a", "c"])
    watcher.stream.state("a", 3)
    watcher.stream.state("c", 1, count=1)
    watcher.stream.state("d", 1, count=1)
    watcher.stream.complete()
    assert watcher.take_reported() == [
        ("disconnected",),
        ("a", 3, True, True),
        ("c", 1, True, False),
        ("d", 1, True, True),
        ("complete",),
    ]


def test_a_watch_of_all_threads_excludes_newly_forbidden_threads() -> None:
    watcher = Watcher(everything=True)
    watcher.stream.state("a", 1, count=1)
    watcher.stream.complete()
    watcher.stream.end(LOST)
    watcher.reconnect()
    watcher.take_reported()
    watcher.stream.refuse(forbidden("a"))
    watcher.reconnect()
    assert [(request.all_threads, list(request.add)) for request in watcher.stream.sent] == [(True, [])]
    watcher.stream.complete()
    assert watcher.take_reported() == [("complete",)]


def test_a_refused_first_request_with_options_reopens_the_stream() -> None:
    watcher = Watcher("a", "no", elicitations=True)
    watcher.stream.refuse(forbidden("no"))
    assert watcher.take_reported() == [("disconnected", "no"), ("disconnected", "a")]
    watcher.reconnect()
    [request] = watcher.stream.sent
    assert (request.include_elicitations, list(request.add)) == (True, ["a"])
    watcher.serve()
    assert watcher.take_reported() == [("a", 1, True, True), ("complete",)]


def test_a_watch_with_options_whose_threads_are_all_forbidden_keeps_its_stream() -> None:
    watcher = Watcher("no", elicitations=True)
    watcher.stream.refuse(forbidden("no"))
    watcher.reconnect()
    stream = watcher.stream
    [request] = stream.sent
    assert (request.include_elicitations, list(request.add)) == (True, [])
    stream.complete()
    watcher.runtime.move_to(watcher.runtime.seconds + 29)
    assert watcher.stream is stream
    assert watcher.take_reported() == [("disconnected", "no"), ("complete",)]
    watcher.add("yes")
    assert watcher.sent[1:] == [(["yes"], [])]
    watcher.serve()
    assert watcher.take_reported() == [("yes", 1, True, True), ("complete",)]


def test_a_watch_without_threads_sends_nothing() -> None:
    assert Watcher(elicitations=True).runtime.streams == []
    watcher = Watcher("no")
    watcher.stream.refuse(forbidden("no"))
    watcher.stream.end(LOST)
    watcher.reconnect()
    watcher.stream.refuse(forbidden("no"))
    assert len(watcher.stream.sent) == 1, "no options, nothing to add"


def test_a_limit_on_a_watch_of_all_threads_is_waited_for() -> None:
    watcher = Watcher(everything=True)
    watcher.stream.refuse(limited())
    assert watcher.take_reported() == [("disconnected",)]
    watcher.runtime.move_to(2.9)
    assert watcher.runtime.streams == []
    watcher.reconnect()
    assert [request.all_threads for request in watcher.stream.sent] == [True]


def test_a_closed_watch_leaves_no_stream_or_timer() -> None:
    for watcher in (Watcher("a"), Watcher(everything=True)):
        watcher.stream.refuse(limited())
        watcher.watching.close()
        assert (watcher.runtime.streams, watcher.runtime.timers) == ([], 0)


def test_a_state_of_another_epoch_is_a_change_whatever_its_revision() -> None:
    watcher = Watcher("a")
    watcher.serve(revision=5)
    watcher.stream.end(LOST)
    watcher.reconnect()
    watcher.take_reported()
    watcher.stream.state("a", 5, epoch=2)
    watcher.stream.complete()
    assert watcher.take_reported() == [("a", 5, True, True), ("complete",)]


def test_an_interval_above_an_hour_counts_as_an_hour() -> None:
    watcher = Watcher("t")
    watcher.serve()
    beat = pb.WatchResponse(heartbeat=pb.Heartbeat())
    beat.heartbeat.interval.FromSeconds(315_576_000_000)
    watcher.stream.on_message(beat)
    watcher.take_reported()
    watcher.runtime.move_to(9_000)
    assert isinstance(watcher.reported[0], pw.Disconnected)
    assert str(watcher.reported[0].error) == "the watch was silent for 9000 s"


def test_silence_of_two_and_a_half_intervals_is_a_disconnect() -> None:
    watcher = Watcher("t")
    watcher.serve()
    beat = pb.WatchResponse(heartbeat=pb.Heartbeat())
    beat.heartbeat.interval.FromSeconds(1)
    watcher.runtime.move_to(1)
    watcher.stream.on_message(beat)
    watcher.take_reported()
    watcher.runtime.move_to(3.4)
    assert watcher.take_reported() == []
    watcher.runtime.move_to(3.6)
    assert isinstance(watcher.reported[0], pw.Disconnected)
    assert str(watcher.reported[0].error) == "the watch was silent for 2.5 s"
    # The next server says nothing.
    watcher.reported.clear()
    watcher.reconnect()
    watcher.serve()
    watcher.runtime.move_to(watcher.runtime.seconds + 29)
    assert not any(isinstance(event, pw.Disconnected) for event in watcher.reported)


def slow_source(delay: float) -> Watcher:
    """A watch over several addresses whose token source needs this long."""
    watcher = Watcher()
    watcher.runtime.route = Route(3, lambda _: "channel", lambda _: None, lambda _: None)
    watcher.runtime.token, watcher.runtime.token_delay = "token", delay
    watcher.watching = Watching(watcher.runtime, 5 * SECOND, watcher.reported.append)
    watcher.add("t")
    return watcher


def test_a_slow_token_source_delays_the_stream_and_moves_no_client() -> None:
    watcher = slow_source(4)
    watcher.runtime.move_to(3.9)
    assert watcher.runtime.streams == []
    watcher.runtime.move_to(5.4)
    assert (watcher.stream.token, watcher.sent, watcher.take_reported()) == ("token", [(["t"], [])], [])
    watcher.runtime.move_to(5.5)
    assert watcher.take_reported() == [("disconnected", "t")], "1.5 s after the stream was opened"
    assert watcher.runtime.route.now[0] == 1


def test_a_token_that_does_not_come_in_time_is_a_disconnect_and_moves_no_client() -> None:
    watcher = slow_source(3_600)
    watcher.runtime.move_to(5)
    [event] = watcher.reported
    assert isinstance(event, pw.Disconnected)
    assert isinstance(event.error, pw.DeadlineExceeded)
    assert str(event.error) == "the token source gave no token within 5 s"
    watcher.runtime.move_to(60)
    assert (watcher.runtime.streams, watcher.runtime.route.now[0]) == ([], 0)
    watcher.runtime.token_delay = 0
    watcher.reconnect()
    assert watcher.sent == [(["t"], [])]


def test_a_watch_that_is_closed_while_it_waits_for_a_token_leaves_no_stream_or_timer() -> None:
    watcher = slow_source(1)
    watcher.watching.close()
    watcher.runtime.move_to(2)
    assert (watcher.runtime.streams, watcher.runtime.timers, watcher.reported) == ([], 0, [])


def test_streams_of_a_client_that_moved_follow_within_half_a_second() -> None:
    watcher = Watcher("t")
    watcher.serve()
    route = watcher.runtime.route = Route(3, lambda _: "channel", lambda _: None, lambda _: None)
    watcher.watching.close()
    watcher.watching = Watching(watcher.runtime, 5 * SECOND, watcher.reported.append)
    watcher.add("t")
    watcher.serve()
    watcher.take_reported()
    assert route.move_on(0)
    assert watcher.take_reported() == [], "not at once"
    watcher.runtime.move_to(0.51)
    assert watcher.take_reported() == [("disconnected", "t")]
    assert watcher.stream.moves == 1
    # Without a first message in time it leaves the address, and comes back to the first one only after a lap.
    watcher.runtime.move_to(2.2)
    watcher.reconnect()
    assert (watcher.stream.moves, route.now[0]) == (2, 2)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_process_that_was_stopped_first_reads_what_has_arrived(arrives: bool) -> None:
    watcher = Watcher("t")
    watcher.serve()
    watcher.take_reported()
    watcher.runtime.stall(40)
    stopped_until = watcher.runtime.seconds
    watcher.runtime.move_to(stopped_until + 0.001)
    assert watcher.take_reported() == [], "its own time counts for no silence"
    if arrives:
        watcher.stream.on_message(pb.WatchResponse(heartbeat=pb.Heartbeat()))
    watcher.runtime.move_to(stopped_until + 20)
    assert [type(each) for each in watcher.reported] == ([] if arrives else [pw.Disconnected])
