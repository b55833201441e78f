"""The streams of a watch and the events that it delivers, on a moved clock."""

from __future__ import annotations

from datetime import timedelta

from grpc import StatusCode
from support.fake_runtime import FakeRuntime, Stream, state

import pausewatch as pw
from pausewatch._io.durations import SECOND
from pausewatch._watch.stream_set import MOST_IDS
from pausewatch._watch.watching import Watching

LOST = pw.Unavailable.of("connection lost")
REFUSED = pw.CallError(pw.Status(StatusCode.PERMISSION_DENIED, "no"))


def limited(limit: str) -> pw.LimitExceeded:
    status = pw.Status(StatusCode.RESOURCE_EXHAUSTED, "", "LIMIT_EXCEEDED", {"limit": limit}, retry_after=timedelta(seconds=3))
    return pw.LimitExceeded(status)


class Watcher:
    """A watch, and what it has told."""

    def __init__(self, *thread_ids: str, everything: bool = False, elicitations: bool = False) -> None:
        self.runtime = FakeRuntime()
        self.told: list[pw.Event] = []
        self.watching = Watching(self.runtime, 5 * SECOND, self.told.append, everything=everything, elicitations=elicitations)
        for thread_id in thread_ids:
            self.watching.add(thread_id)
        self.watching.start()

    @property
    def stream(self) -> Stream:
        """The only stream."""
        [stream] = self.runtime.streams
        return stream

    def add(self, *thread_ids: str) -> None:
        for thread_id in thread_ids:
            self.watching.add(thread_id)
        self.watching.start()

    def serve(self, stream: Stream, revision: int = 1) -> None:
        """The snapshot of a server on which nothing happened."""
        for thread_id in list(stream.request.thread_ids):
            stream.state(thread_id, revision)
        stream.complete()

    def reconnect(self) -> None:
        """Long enough for every stream to be opened again."""
        self.runtime.move_to(self.runtime.seconds + 7)

    def tell(self) -> list[tuple[object, ...]]:
        """What has been told since, in short."""
        told, self.told = self.told.copy(), self.told
        self.told.clear()
        short: list[tuple[object, ...]] = []
        for event in told:
            match event:
                case pw.State(state, gap, changed):
                    short.append((state.thread_id, state.revision, gap, changed))
                case pw.SnapshotComplete():
                    short.append(("complete",))
                case pw.Disconnected(thread_ids):
                    short.append(("disconnected", *sorted(thread_ids)))
        return short


def test_it_tells_each_thread_then_that_it_is_complete_then_changes() -> None:
    watcher = Watcher("a", "b", "a")
    assert list(watcher.stream.request.thread_ids) == ["a", "b"]
    watcher.serve(watcher.stream)
    assert watcher.tell() == [("a", 1, True, True), ("b", 1, True, True), ("complete",)]
    watcher.stream.state("a", 2)
    watcher.stream.state("a", 2)
    assert watcher.tell() == [("a", 2, False, True)], "and nothing twice"


def test_a_break_is_told_once_and_the_first_state_after_it_has_a_gap() -> None:
    watcher = Watcher("a", "b")
    watcher.serve(watcher.stream)
    watcher.tell()
    watcher.stream.end(LOST)
    assert watcher.tell() == [("disconnected", "a", "b")]
    watcher.reconnect()
    watcher.stream.end(LOST)
    watcher.reconnect()
    assert watcher.tell() == []
    watcher.stream.state("a", 1)
    watcher.stream.state("b", 4)
    watcher.stream.complete()
    assert watcher.tell() == [("a", 1, True, False), ("b", 4, True, True), ("complete",)]


def test_only_the_first_connection_is_not_waited_for() -> None:
    watcher = Watcher("a")
    assert not watcher.stream.wait_for_ready, "that nobody listens must be told at once"
    watcher.stream.end(LOST)
    watcher.reconnect()
    assert watcher.stream.wait_for_ready


def test_pauses_between_attempts_grow_and_begin_anew_after_a_snapshot() -> None:
    watcher = Watcher("a")
    for longest in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6, 6, 6):
        watcher.stream.end(LOST)
        assert watcher.runtime.streams == []
        watcher.runtime.move_to(watcher.runtime.seconds + longest)
        assert len(watcher.runtime.streams) == 1
    watcher.serve(watcher.stream)
    watcher.stream.end(LOST)
    watcher.runtime.move_to(watcher.runtime.seconds + 0.1)
    assert len(watcher.runtime.streams) == 1


def test_silence_of_30_s_is_a_break_and_a_heartbeat_is_none() -> None:
    watcher = Watcher("a")
    watcher.serve(watcher.stream)
    first = watcher.stream
    watcher.runtime.move_to(29)
    watcher.stream.heartbeat()
    watcher.runtime.move_to(58)
    assert watcher.stream is first
    watcher.tell()
    watcher.runtime.move_to(59)
    assert watcher.runtime.streams == []
    [event] = watcher.told
    assert isinstance(event, pw.Disconnected)
    assert str(event.error) == "the watch was silent for 30 s"


def test_a_first_answer_that_does_not_come_within_the_deadline_is_a_break() -> None:
    watcher = Watcher("a")
    watcher.runtime.move_to(5)
    assert watcher.tell() == [("disconnected", "a")]


def test_what_is_added_waits_for_the_opening_stream_and_then_shares_the_next() -> None:
    watcher = Watcher("a")
    watcher.add("b")
    watcher.add("c")
    first = watcher.stream
    watcher.serve(first)
    assert watcher.tell() == [("a", 1, True, True)], "not complete: b and c are to come"
    [_, second] = watcher.runtime.streams
    assert list(second.request.thread_ids) == ["b", "c", "a"]
    watcher.serve(second)
    assert watcher.runtime.streams == [second]
    assert watcher.tell() == [("b", 1, True, True), ("c", 1, True, True), ("complete",)]


def test_a_stream_that_is_taken_over_serves_until_the_new_one_has_told_everything() -> None:
    watcher = Watcher("a")
    watcher.serve(watcher.stream)
    watcher.add("b")
    old, new = watcher.runtime.streams
    watcher.tell()
    new.state("a", 2)
    assert watcher.tell() == [], "held back: the old stream tells of a"
    old.state("a", 3)
    new.state("b", 1)
    new.complete()
    assert watcher.tell() == [("a", 3, False, True), ("b", 1, True, True), ("complete",)]
    new.state("a", 3)
    new.state("a", 4)
    assert watcher.tell() == [("a", 4, False, True)], "nothing twice, nothing lost, no gap"


def test_what_only_the_new_stream_saw_is_told_when_it_takes_over() -> None:
    watcher = Watcher("a")
    watcher.serve(watcher.stream)
    watcher.add("b")
    new = watcher.runtime.streams[1]
    watcher.tell()
    new.state("a", 2)
    new.state("b", 1)
    new.complete()
    assert watcher.tell() == [("b", 1, True, True), ("a", 2, False, True), ("complete",)]


def test_a_stream_that_opens_beside_a_broken_one_leads_to_one_stream_again() -> None:
    watcher = Watcher("a")
    watcher.serve(watcher.stream)
    watcher.stream.end(LOST)
    watcher.add("b")
    watcher.reconnect()
    for stream in watcher.runtime.streams.copy():
        watcher.serve(stream)
    [*_, merged] = watcher.runtime.streams
    watcher.serve(merged)
    assert watcher.runtime.streams == [merged]
    assert sorted(merged.request.thread_ids) == ["a", "b"]


def test_ten_thousand_threads_share_a_stream_and_more_need_another() -> None:
    watcher = Watcher(*map(str, range(MOST_IDS + 5)))
    first = watcher.stream
    assert len(first.request.thread_ids) == MOST_IDS
    watcher.serve(first)
    second = watcher.runtime.streams[1]
    assert len(second.request.thread_ids) == 5
    assert ("complete",) not in watcher.tell()
    watcher.serve(second)
    assert watcher.tell()[-1] == ("complete",)
    watcher.add("more")
    third = watcher.runtime.streams[2]
    assert len(third.request.thread_ids) == 6, "the full one is left alone"
    watcher.serve(third)
    assert watcher.runtime.streams == [first, third]


def test_a_set_that_becomes_empty_needs_no_stream() -> None:
    watcher = Watcher("a", "b")
    watcher.watching.remove("a")
    watcher.watching.remove("never was")
    assert len(watcher.runtime.streams) == 1
    watcher.watching.remove("b")
    assert watcher.runtime.streams == []
    watcher.add("c")
    assert list(watcher.stream.request.thread_ids) == ["c"]


def test_a_stream_of_mostly_removed_threads_is_opened_anew() -> None:
    watcher = Watcher(*map(str, range(100)))
    watcher.serve(watcher.stream)
    for number in range(51):
        watcher.watching.remove(str(number))
    new = watcher.runtime.streams[1]
    assert sorted(new.request.thread_ids) == sorted(map(str, range(51, 100)))
    watcher.tell()
    watcher.serve(new)
    assert watcher.runtime.streams == [new]
    assert watcher.tell() == [], "to the reader nothing has happened"


def test_a_refused_stream_keeps_nobody_else_waiting() -> None:
    watcher = Watcher("a")
    watcher.serve(watcher.stream)
    watcher.add("forbidden")
    watcher.runtime.streams[1].end(REFUSED)
    watcher.add("b")
    assert sorted(watcher.runtime.streams[-1].request.thread_ids) == ["a", "b"]


def test_only_a_limit_of_calls_a_second_is_no_refusal_of_a_stream() -> None:
    for limit, opened in (("calls-per-second", []), ("streams-per-caller", [["a", "c"]])):
        watcher = Watcher("a")
        watcher.serve(watcher.stream)
        watcher.add("b")
        watcher.runtime.streams[1].end(limited(limit))
        watcher.add("c")
        assert [sorted(stream.request.thread_ids) for stream in watcher.runtime.streams[1:]] == opened


def test_of_everything_too_many_calls_a_second_are_waited_for() -> None:
    watcher = missing_after_a_break()
    watcher.tell()
    watcher.runtime.calls[0].answer(limited("calls-per-second-per-caller"))
    watcher.runtime.move_to(watcher.runtime.seconds + 3)
    assert watcher.runtime.calls == []
    watcher.runtime.move_to(watcher.runtime.seconds + 0.2)
    watcher.runtime.calls[0].answer(state("a", 2))
    assert watcher.tell() == [("a", 2, True, True), ("complete",)]


def test_a_watch_of_everything_tells_the_paused_ones_and_then_any_change() -> None:
    watcher = Watcher(everything=True)
    assert list(watcher.stream.request.thread_ids) == []
    watcher.stream.state("paused", 5, count=1)
    watcher.stream.complete()
    watcher.stream.state("new", 6, count=1)
    watcher.stream.state("new", 7)
    watcher.stream.state("new", 8, count=1)
    assert watcher.tell() == [
        ("paused", 5, True, True),
        ("complete",),
        ("new", 6, False, True),
        ("new", 7, False, True),
        ("new", 8, False, True),
    ]


def test_of_everything_it_asks_for_what_was_resumed_in_the_gap() -> None:
    watcher = Watcher(everything=True)
    for thread_id in ("a", "b", "c"):
        watcher.stream.state(thread_id, 1, count=1)
    watcher.stream.complete()
    watcher.tell()
    watcher.stream.end(LOST)
    watcher.reconnect()
    watcher.stream.state("b", 1, count=1)
    watcher.stream.complete()
    assert watcher.tell() == [("disconnected",), ("b", 1, True, False)]
    watcher.runtime.calls[0].answer(LOST)
    watcher.runtime.move_to(watcher.runtime.seconds + 1)
    watcher.runtime.calls[0].answer(state("c", 2))
    watcher.runtime.calls[0].answer(state("a", 3))
    assert watcher.tell() == [("c", 2, True, True), ("a", 3, True, True), ("complete",)]
    assert watcher.runtime.calls == []


def missing_after_a_break() -> Watcher:
    """Of everything: "a" was paused at revision 1, and the snapshot after the break leaves it out."""
    watcher = Watcher(everything=True)
    watcher.stream.state("a", 1, count=1)
    watcher.stream.complete()
    watcher.stream.end(LOST)
    watcher.reconnect()
    watcher.stream.complete()
    return watcher


def test_of_everything_an_answer_that_was_overtaken_by_the_stream_is_no_news() -> None:
    watcher = missing_after_a_break()
    watcher.tell()
    watcher.stream.state("a", 3, count=1)
    watcher.runtime.calls[0].answer(state("a", 2))
    assert watcher.tell() == [("a", 3, True, True), ("complete",)]
    watcher.stream.end(LOST)
    watcher.reconnect()
    watcher.stream.complete()
    assert [call.call.method for call in watcher.runtime.calls] == ["GetPauseState"], "it is still known as paused"


def test_g6_what_was_asked_for_after_a_break_is_not_followed_by_older_states() -> None:
    for count in (0, 1):
        watcher = missing_after_a_break()
        watcher.tell()
        watcher.runtime.calls[0].answer(state("a", 6, count=count))
        assert watcher.tell() == [("a", 6, True, True), ("complete",)]
        # The stream was behind the answer.
        for revision in range(2, 7):
            watcher.stream.state("a", revision, count=revision % 2)
        assert watcher.tell() == []
        watcher.stream.state("a", 7, count=1)
        assert [(revision, changed) for _, revision, _, changed in watcher.tell()] == [(7, True)]


def test_g6_after_the_next_break_what_was_asked_for_holds_nothing_back() -> None:
    watcher = missing_after_a_break()
    watcher.runtime.calls[0].answer(state("a", 6))
    watcher.stream.end(LOST)
    watcher.tell()
    watcher.reconnect()
    watcher.stream.state("a", 3, count=1)
    watcher.stream.complete()
    assert watcher.tell() == [("a", 3, True, True), ("complete",)], "the server has lost its state"


def test_of_everything_what_the_stream_tells_first_needs_no_answer() -> None:
    watcher = missing_after_a_break()
    watcher.tell()
    watcher.stream.state("a", 3, count=1)
    watcher.stream.state("a", 4)
    watcher.runtime.calls[0].answer(state("a", 6))
    assert watcher.tell() == [("a", 3, True, True), ("a", 4, False, True), ("complete",)]
    watcher.stream.state("a", 5, count=1)
    watcher.stream.state("a", 6)
    assert watcher.tell() == [("a", 5, False, True), ("a", 6, False, True)], "it goes on by itself"


def test_of_everything_a_break_forgets_what_was_to_be_asked() -> None:
    watcher = missing_after_a_break()
    watcher.stream.end(LOST)
    assert watcher.runtime.calls == [], "the answer may be older than what is missing next"
    watcher.tell()
    watcher.reconnect()
    watcher.stream.complete()
    watcher.runtime.calls[0].answer(state("a", 2))
    assert watcher.tell() == [("a", 2, True, True), ("complete",)]


def test_closed_it_leaves_nothing_under_way() -> None:
    for watcher in (Watcher("a"), Watcher(everything=True)):
        watcher.stream.state("a", 1, count=1)
        watcher.stream.complete()
        watcher.stream.end(LOST)
        watcher.reconnect()
        watcher.stream.complete()
        watcher.watching.close()
        runtime = watcher.runtime
        assert (runtime.streams, runtime.calls, runtime.timers) == ([], [], 0)


def test_a_state_of_another_epoch_is_a_change_whatever_its_revision() -> None:
    watcher = Watcher("a")
    watcher.serve(watcher.stream, revision=5)
    watcher.stream.end(LOST)
    watcher.reconnect()
    watcher.tell()
    watcher.stream.state("a", 5, epoch=2)
    watcher.stream.complete()
    assert watcher.tell() == [("a", 5, True, True), ("complete",)]


def test_of_everything_an_answer_does_not_hide_states_of_another_epoch() -> None:
    watcher = missing_after_a_break()
    watcher.runtime.calls[0].answer(state("a", 6))
    watcher.tell()
    watcher.stream.state("a", 3, count=1, epoch=2)
    assert watcher.tell() == [("a", 3, False, True)]
