"""Threads on which a synchronous client does what its callers wait for.

An exception that a signal handler raises (KeyboardInterrupt, the time limit of a task queue) can appear between any two
instructions of the main thread. Inside gRPC, or inside `threading.Condition` and everything that is built on it (`Event`,
`Thread.start`, `Future`), it leaves a lock locked, for which every later call waits forever. So:

1. The thread of a caller neither calls gRPC nor takes a lock of Python code. It puts a job into a queue and waits for the
   outcome, both by methods of `SimpleQueue`, which happen entirely or not at all.
2. A job that was put runs to its end, whether its caller still waits or not.
"""

from __future__ import annotations

import _thread
import logging
import sys
import threading
import time
from collections import deque
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")

_logger = logging.getLogger("pausewatch")

_LINGER_SECONDS = 10.0
"""How long a thread without a job waits for the next one."""


class Job(Generic[_Result]):
    """Work that runs once, on another thread than that of its caller."""

    __slots__ = ("_outcome", "_work")

    def __init__(self, work: Callable[[], _Result]) -> None:
        self._work: Callable[[], _Result] | None = work
        self._outcome: SimpleQueue[tuple[_Result | None, BaseException | None]] = SimpleQueue()

    def run(self) -> None:
        """Does the work. Running it again does nothing."""
        work, self._work = self._work, None
        if work is None:
            return
        try:
            result = work()
        except BaseException as error:
            self._outcome.put((None, error))
        else:
            self._outcome.put((result, None))

    def wait(self, timeout: float | None = None) -> _Result:
        """Waits for the outcome, and returns or raises it. Raises Empty: the timeout passed."""
        result, error = self._outcome.get(timeout=timeout)
        if error is None:
            return result  # type: ignore[return-value]  # The work's own result, which may be None.
        try:
            raise error
        finally:
            # Otherwise the error and this frame would keep each other alive.
            del error


class Workers:
    """Runs every job at once: on a thread that has none, else on a new one."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        # One entry for each thread that waits for a job.
        self._idle: deque[None] = deque()
        self.put = self._jobs.put
        """Has something done in the background by a thread that waits, or by the next one: for handlers of exceptions, which a
        further exception could interrupt."""

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Runs `work` on another thread, and waits for it."""
        if sys.is_finalizing():
            # The other threads stand still.
            return work()
        # Interceptors read the caller's context, for example the current span.
        job = Job(partial(copy_context().run, work))
        self.start(job.run)
        return job.wait()

    def start(self, work: Callable[[], object]) -> None:
        """Runs `work` on another thread, in the background; its exceptions are logged."""
        self._jobs.put(work)
        self._start_enough()

    def end(self) -> None:
        """Ends the threads after the jobs that they have. May be called by a destructor."""
        self._jobs.put(None)

    def _start_enough(self) -> None:
        if self._jobs.qsize() > len(self._idle):
            start_thread(self._work, "pausewatch-call")

    def _work(self) -> None:
        while True:
            self._idle.append(None)
            try:
                job = self._jobs.get(timeout=_LINGER_SECONDS)
            except Empty:
                job = None
            self._idle.pop()
            if job is None:
                if self._jobs.empty():
                    break
                continue
            # Jobs that were put since the last look may have counted on this thread.
            self._start_enough()
            try:
                job()
            except BaseException:
                _logger.exception("an internal error of pausewatch")
            # Otherwise the variable would keep the job's objects alive until the next one.
            del job
        if self._idle:
            # The end is for all.
            self._jobs.put(None)


def start_thread(run: Callable[[], object], name: str) -> None:
    """Starts a daemon thread. Not by `Thread.start` on this thread: it waits for an event."""
    _thread.start_new_thread(lambda: threading.Thread(target=run, name=name, daemon=True).start(), ())


class Wake:
    """Wakes the threads that wait for a change. `fire` is called after each change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[SimpleQueue[None]] = []

    def fire(self) -> None:
        """Wakes every thread that waits now."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.put(None)

    def wait_for(self, is_ready: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until `is_ready`; False: the timeout passed, in seconds."""
        give_up = None if timeout is None else time.monotonic() + timeout
        own: SimpleQueue[None] = SimpleQueue()
        while True:
            with self._lock:
                if is_ready():
                    return True
                self._waiting.append(own)
            try:
                own.get(timeout=None if give_up is None else max(0.0, give_up - time.monotonic()))
            except Empty:
                with self._lock:
                    if own in self._waiting:
                        self._waiting.remove(own)
                    return is_ready()
