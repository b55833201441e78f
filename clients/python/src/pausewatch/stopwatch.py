"""A time limit that stands still while it is paused: by its own pauses, or by open elicitations of its thread.

Time is measured by the monotonic clock, which stands still while the machine sleeps: a sleep is not charged.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from ._io.calls import check_thread_id
from ._io.durations import Nanos, Seconds, read_nanos, to_seconds, to_wait
from ._io.workers import Wake
from ._stopwatch.controller import Controller
from ._stopwatch.ended_by import EndedBy
from ._stopwatch.ticking import Ticking
from .errors import InvalidField

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._io.async_connection import AsyncConnection
    from ._io.connection import Connection
    from ._io.runtime import Runtime
    from .config import Config

__all__ = ["AsyncStopwatch", "EndedBy", "Stopwatch"]

DISCONNECT_GRACE: Seconds = 30.0
"""The default time that a stopwatch waits for an unreachable coordinator, and that an unconfirmed pause counts."""


class _Connection(Protocol):
    @property
    def deadline(self) -> Nanos: ...
    @property
    def config(self) -> Config: ...
    @property
    def controllers(self) -> dict[Nanos, Controller]: ...
    @property
    def runtime(self) -> Runtime: ...
    def check(self) -> None: ...


_ConnectionT = TypeVar("_ConnectionT", bound=_Connection)


class _Ending:
    """Handles the end of a stopwatch. It outlives the stopwatch, and refers to it only while callbacks wait."""

    def __init__(self, runtime: Runtime, wake: Callable[[], None]) -> None:
        self._runtime = runtime
        self._wake = wake
        self._callbacks: list[Callable[[], object]] = []
        self._kept: object = None
        self.ticking: Ticking | None = None

    def call(self, callback: Callable[[], object], keep: object) -> None:
        """Calls `callback` after an expiry; `keep` is kept alive until the stopwatch ends."""
        assert self.ticking is not None
        if self.ticking.is_expired:
            self._runtime.defer(callback)
        elif not self.ticking.has_ended:
            self._callbacks.append(callback)
            self._kept = keep

    def ended(self) -> None:
        self._wake()
        callbacks, self._callbacks, self._kept = self._callbacks, [], None
        if self.ticking is not None and self.ticking.is_expired:
            for callback in callbacks:
                self._runtime.defer(callback)
        self._runtime.release_timers()

    def close_soon(self) -> None:
        self._runtime.submit(self.close)

    def close(self) -> None:
        if self.ticking is not None and not self._runtime.is_foreign:
            self._runtime.do(self.ticking.stop)


class _Stopwatch(Generic[_ConnectionT]):
    """The common parts of both kinds of stopwatch: everything except waiting."""

    def __init__(
        self,
        connection: _ConnectionT,
        thread_id: str,
        limit: Seconds | None,
        max_wall: Seconds | None,
        grace: Seconds,
        wake: Callable[[], None],
    ) -> None:
        # The time runs from here, even if the runtime must be made first.
        began = time.monotonic_ns()
        check_thread_id(thread_id)
        length = None if limit is None else read_nanos("limit", limit)
        wall = None if max_wall is None else read_nanos("max_wall", max_wall)
        grace_nanos = read_nanos("disconnect_grace", grace)
        runtime = connection.runtime
        self._connection = connection
        self._thread_id = thread_id
        self._lock = runtime.lock
        self._ending = _Ending(runtime, wake)

        def start() -> Ticking:
            # Checked under the lock: a concurrent close either finds this stopwatch, or is noticed here.
            connection.check()
            controller = connection.controllers.get(grace_nanos)
            if controller is None:
                controller = connection.controllers[grace_nanos] = Controller(
                    runtime, connection.deadline, grace_nanos, connection.config.on_link
                )
            runtime.keep_timers()
            self._ending.ticking = Ticking(runtime, controller, thread_id, length, began, self._ending.ended, wall)
            return self._ending.ticking

        self._runtime = runtime
        self._ticking = runtime.do(start)
        self._can_expire = length is not None or wall is not None

    def __del__(self) -> None:
        # Not weakref.finalize: it would keep the callbacks alive, also those of an event loop that is closed.
        # Also called when the constructor has raised.
        if (ending := getattr(self, "_ending", None)) is not None:
            ending.close_soon()

    def elapsed(self) -> float:
        """The unpaused time so far, in seconds. Never decreases: if a pause becomes known only after a reconnect, the value
        stands still until that time is made up for. It does not change after the stopwatch has ended.
        """
        with self._lock:
            return to_seconds(self._ticking.elapsed())

    def remaining(self) -> float | None:
        """The limit less `elapsed`, in seconds, at least 0; None without a limit.

        Zero does not mean expired: the coordinator may have to confirm first.
        """
        with self._lock:
            remaining = self._ticking.remaining()
        return None if remaining is None else to_seconds(remaining)

    @property
    def is_expired(self) -> bool:
        """Whether the limit is used up and the coordinator has confirmed that the thread runs (G1), or was unreachable for the
        whole disconnect grace, or `max_wall` is over. An expired stopwatch stays expired.
        """
        return self._ticking.is_expired

    @property
    def ended_by(self) -> EndedBy | None:
        """The limit that ended it; None: it is running, or was stopped."""
        return self._ticking.ended_by

    @property
    def is_paused(self) -> bool:
        """Whether it stands still, because of a pause of its own or of a thread that it follows."""
        with self._lock:
            return self._ticking.is_paused

    @property
    def is_linked(self) -> bool:
        """Whether the state of every thread that it follows is known and the connection is up."""
        with self._lock:
            return self._ticking.is_linked

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pauses it while the block runs. Pauses nest: it continues when the last one ends."""
        with self._both(self._ticking.pause, self._ticking.resume):
            yield

    @contextmanager
    def await_thread(self, thread_id: str) -> Iterator[None]:
        """Makes it stand still also while that thread is paused, as long as the block runs: for work that waits for a sub-agent.

        Time in which several threads are paused counts once. The same thread may be awaited several times: it counts until the
        last block ends. Threads that are awaited by that thread do not count.

        Raises InvalidField: the id is not valid, or is the stopwatch's own thread.
        """
        check_thread_id(thread_id)
        if thread_id == self._thread_id:
            raise InvalidField.of("thread_id", f"is {thread_id!r}, the stopwatch's own thread; allowed: another thread")
        with self._both(partial(self._ticking.await_thread, thread_id), partial(self._ticking.unawait_thread, thread_id)):
            yield

    @contextmanager
    def _both(self, begin: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
        """Does the second after the block, or after an interrupt of the first, which is done in any case."""
        begun = []

        def begin_once() -> None:
            begun.append(begin())

        def end_if_begun() -> None:
            if begun:
                end()

        try:
            self._runtime.do(begin_once)
            yield
        finally:
            self._runtime.do(end_if_begun)

    def call_when_expired(self, callback: Callable[[], object]) -> None:
        """Calls `callback` once when the stopwatch expires, or soon if it has already expired; never if it is stopped before.

        Until then the stopwatch and its client stay alive, even without another reference to them.

        A synchronous client runs all its callbacks on one thread, an asynchronous client on its event loop: keep them short.
        Their exceptions are logged.
        """
        # Without a limit it cannot expire, and need not be kept alive.
        self._runtime.do(partial(self._ending.call, callback, self if self._can_expire else None))

    def _set_left(self, left: Seconds | None) -> None:
        nanos = None if left is None else max(0, read_nanos("when", left))
        self._runtime.do(partial(self._ticking.set_left, nanos))

    def stop(self) -> None:
        """Stops it: it will not expire. Does nothing after its end, or if called again."""
        self._ending.close()


class Stopwatch(_Stopwatch["Connection"]):
    """A stopwatch for threads. Made by `Client.stopwatch`. It starts at once, and runs until it expires, is stopped, or its
    `with` block ends.
    """

    def __init__(
        self,
        connection: Connection,
        thread_id: str,
        limit: Seconds | None,
        max_wall: Seconds | None,
        grace: Seconds,
    ) -> None:
        self._ended = Wake()
        super().__init__(connection, thread_id, limit, max_wall, grace, self._ended.fire)

    def wait_expired(self, timeout: Seconds | None = None) -> bool:
        """Waits until it has expired, and returns True; False: `timeout` passed before, or it was stopped."""
        self._ended.wait_for(lambda: self._ticking.has_ended, to_wait(timeout))
        return self.is_expired

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class AsyncStopwatch(_Stopwatch["AsyncConnection"]):
    """A stopwatch for tasks. Made by `AsyncClient.stopwatch`. It starts at once, and runs until it expires, is stopped, or its
    `async with` block ends.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        thread_id: str,
        limit: Seconds | None,
        max_wall: Seconds | None,
        grace: Seconds,
    ) -> None:
        self._ended = asyncio.Event()
        super().__init__(connection, thread_id, limit, max_wall, grace, self._ended.set)

    async def wait_expired(self) -> bool:
        """Waits until it has expired, and returns True; False: it was stopped. If the task is cancelled, nothing is lost."""
        await self._ended.wait()
        return self.is_expired

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
