"""The threads of the synchronous client outlive whatever is raised on them."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from pausewatch._io import calls
from pausewatch._io.threads import ThreadRuntime
from pausewatch._io.tokens import Asking
from pausewatch.errors import CallError, DeadlineExceeded


@pytest.fixture
def runtime() -> Iterator[ThreadRuntime]:
    # Neither calls nor streams are made.
    runtime = ThreadRuntime(cast("Any", None), cast("Any", None))
    yield runtime
    runtime.close()


def _cancelled() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("failing", [sys.exit, _cancelled, lambda: pytest.fail("it is over")])
def test_no_exception_of_a_callback_keeps_the_next_one_from_running(
    runtime: ThreadRuntime, failing: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()
    runtime.defer(failing)
    runtime.defer(done.set)
    assert done.wait(10)
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.ERROR, "a callback of a stopwatch failed"),
    ]


@pytest.mark.parametrize("failing", [sys.exit, _cancelled])
def test_no_exception_ends_the_timers(
    runtime: ThreadRuntime, failing: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    submitted, due = threading.Event(), threading.Event()
    runtime.submit(failing)
    runtime.submit(submitted.set)
    runtime.call_at(runtime.now(), failing)
    runtime.call_at(runtime.now(), due.set)
    assert submitted.wait(10)
    assert due.wait(10)
    assert [each.getMessage() for each in caplog.records] == ["an internal error of pausewatch"] * 2


def _runtime_of(stub: object, source: Callable[[], str] | None = None, moves: list[int] | None = None) -> ThreadRuntime:
    moved = [] if moves is None else moves
    route = SimpleNamespace(now=(7, stub), has_several=True, move_on=moved.append)
    asking = None if source is None else Asking(source)
    spec = SimpleNamespace(asking=asking, metadata=lambda _: (), address="a", can_open_more=False)
    return ThreadRuntime(cast("Any", route), cast("Any", spec))


def _exit(*_: object, **__: object) -> Any:
    sys.exit("no vault")


def test_an_exit_of_an_interceptor_or_a_token_source_is_the_end_of_its_stream_or_the_answer() -> None:
    runtime = _runtime_of(SimpleNamespace(Watch=_exit), _exit)
    ends: SimpleQueue[object] = SimpleQueue()
    runtime.stream("token", ends.put, ends.put, own_connection=False)
    runtime.next_token(ends.put)
    for error in (ends.get(timeout=10), ends.get(timeout=10)):
        assert isinstance(error, CallError)
        assert str(error) == "SystemExit: no vault"
    runtime.close()


class _Silent(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.DEADLINE_EXCEEDED

    def details(self) -> str:
        return ""

    def trailing_metadata(self) -> tuple[Any, ...]:
        return ()


def test_a_replica_that_is_silent_for_half_of_a_short_timeout_is_left() -> None:
    timeouts: list[float] = []
    moves: list[int] = []

    def silent(_: object, *, timeout: float, **__: object) -> Future[object]:
        timeouts.append(timeout)
        answer: Future[object] = Future()
        answer.set_exception(_Silent())
        return answer

    runtime = _runtime_of(SimpleNamespace(GetPauseState=SimpleNamespace(future=silent)), moves=moves)
    ends: SimpleQueue[object] = SimpleQueue()
    with runtime.lock:
        runtime.unary(calls.get("t"), 10**9, ends.put)
    assert isinstance(ends.get(timeout=10), DeadlineExceeded)
    assert (timeouts, moves) == ([0.5], [7])
    runtime.close()
