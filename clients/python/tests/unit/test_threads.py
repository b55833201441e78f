"""The threads of the synchronous client outlive whatever is raised on them."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from pausewatch._io.threads import ThreadRuntime


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
    done = threading.Event()
    runtime.submit(failing)
    runtime.call_at(runtime.now(), failing)
    runtime.call_at(runtime.now(), done.set)
    assert done.wait(10)
    assert [each.getMessage() for each in caplog.records] == ["an internal error of pausewatch"] * 2
