"""How far a watch reads ahead of its reader, on a moved clock."""

from __future__ import annotations

import pytest
from support.fake_runtime import FakeRuntime

import pausewatch as pw
from pausewatch._io.durations import SECOND
from pausewatch.watch import BACKLOG, _Reading


class Unread:
    """A watch whose stream brings more than anybody reads."""

    def __init__(self, *thread_ids: str) -> None:
        self.runtime = FakeRuntime()
        self.reading = _Reading(self.runtime, 5 * SECOND, thread_ids or None, elicitations=False, observer=False)
        [self.stream] = self.runtime.streams
        for number in range(BACKLOG):
            self.stream.state(thread_ids[number % len(thread_ids)] if thread_ids else f"t{number}", number)


def test_g7_beyond_the_backlog_a_stream_of_all_threads_is_not_read() -> None:
    unread = Unread()
    assert unread.stream.reading_stopped
    unread.reading.take()
    assert not unread.stream.reading_stopped
    unread.stream.state("one more", BACKLOG)
    assert unread.stream.reading_stopped


def test_a_watch_of_some_threads_is_bounded_by_them() -> None:
    assert not Unread("a", "b").stream.reading_stopped


def test_a_slow_reader_does_not_disconnect_its_own_stream() -> None:
    unread = Unread()
    unread.runtime.move_to(300)
    assert unread.runtime.streams == [unread.stream]
    unread.reading.take()
    unread.runtime.move_to(329)
    assert unread.runtime.streams == [unread.stream]
    unread.runtime.move_to(330)
    assert unread.runtime.streams == [], "read, it is silent for 30 s"


def test_a_stream_that_is_reopened_beyond_the_backlog_is_not_read_either() -> None:
    unread = Unread()
    unread.stream.end(pw.Unavailable.of("connection lost"))
    unread.runtime.move_to(unread.runtime.seconds + 7)
    [stream] = unread.runtime.streams
    assert stream.reading_stopped
    unread.runtime.move_to(300)
    assert unread.runtime.streams == [stream], "and its first message is not waited for"
    unread.reading.take()
    unread.reading.take()
    assert not stream.reading_stopped
    unread.runtime.move_to(305)
    assert unread.runtime.streams == []


@pytest.mark.parametrize("thread_ids", [(), ("a",)])
def test_a_watch_that_is_closed_has_no_stream(thread_ids: tuple[str, ...]) -> None:
    unread = Unread(*thread_ids)
    unread.reading.close()
    assert (unread.runtime.streams, unread.runtime.timers) == ([], 0)
