"""A limit on time that does not run while it is paused: by its own pauses, or by open elicitations of its thread.

Time is the monotonic clock's, which stands still while the machine sleeps: a sleep is not charged.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from ._io.calls import check_thread_id
from ._io.durations import Nanos, Seconds, to_nanos, to_seconds, to_wait
from ._stopwatch.controller import Controller
from ._stopwatch.ended_by import EndedBy
from ._stopwatch.ticking import Ticking
from .errors import InvalidField

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._io.async_connection import AsyncConnection
    from ._io.connection import Connection
    from ._io.runtime import LastingRuntime
    from .config import Config

__all__ = ["AsyncStopwatch", "EndedBy", "Stopwatch"]

DISCONNECT_GRACE: Seconds = 30.0
"""How long a stopwatch that ran out while cut off waits for the link by default."""


class _Connection(Protocol):
    @property
    def deadline(self) -> Nanos: ...
    @property
    def config(self) -> Config: ...
    @property
    def controllers(self) -> dict[Nanos, Controller]: ...
    @property
    def runtime(self) -> LastingRuntime: ...
    def check(self) -> None: ...


_ConnectionT = TypeVar("_ConnectionT", bound=_Connection)


class _Ending:
    """What happens when a stopwatch ends. It outlives the stopwatch, and has it only while somebody is to be called."""

    def __init__(self, runtime: LastingRuntime, wake: Callable[[], None]) -> None:
        self._runtime = runtime
        self._wake = wake
        self._callbacks: list[Callable[[], object]] = []
        self._kept: object = None
        self.ticking: Ticking | None = None

    def call(self, callback: Callable[[], object], keep: object) -> None:
        """Calls it after an expiry; `keep` lives until it is known whether there is one."""
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
        self._runtime.leave()

    def close_soon(self) -> None:
        self._runtime.submit(self.close)

    def close(self) -> None:
        if self.ticking is not None and not self._runtime.is_foreign:
            with self._runtime.lock:
                self.ticking.stop()


class _Stopwatch(Generic[_ConnectionT]):
    """What both kinds of stopwatch have in common: everything but waiting."""

    def __init__(
        self,
        connection: _ConnectionT,
        thread_id: str,
        limit: Seconds | None,
        max_wall: Seconds | None,
        grace: Seconds,
        wake: Callable[[], None],
    ) -> None:
        # It runs from the moment that it is asked for; what it needs may have to be made first.
        began = time.monotonic_ns()
        check_thread_id(thread_id)
        length = None if limit is None else to_nanos(limit)
        wall = None if max_wall is None else to_nanos(max_wall)
        patience = to_nanos(grace)
        runtime = connection.runtime
        self._connection = connection
        self._thread_id = thread_id
        self._lock = runtime.lock
        self._ending = _Ending(runtime, wake)
        with self._lock:
            # Looked at under the lock: a close either finds it, or is seen here.
            connection.check()
            controller = connection.controllers.get(patience)
            if controller is None:
                controller = connection.controllers[patience] = Controller(
                    runtime, connection.deadline, patience, connection.config.on_link
                )
            runtime.stay()
            self._ticking = Ticking(runtime, controller, thread_id, length, began, self._ending.ended, wall)
            self._ending.ticking = self._ticking
        self._can_expire = length is not None or wall is not None

    def __del__(self) -> None:
        # Not a finalizer of weakref's: it would keep the callbacks for ever, also those of an event loop that is no more.
        # Also called when the constructor has raised.
        if (ending := getattr(self, "_ending", None)) is not None:
            ending.close_soon()

    def elapsed(self) -> float:
        """The unpaused time so far, in seconds. Never goes backwards: where a pause is learnt of only after a lost
        connection, it stands still until that time is made up for. When the stopwatch has ended it stays.
        """
        with self._lock:
            return to_seconds(self._ticking.elapsed())

    def remaining(self) -> float | None:
        """What is left of the limit, in seconds; None without a limit. With `elapsed` it makes up the limit.

        Zero does not mean expired: the coordinator may have to be asked first.
        """
        with self._lock:
            remaining = self._ticking.remaining()
        return None if remaining is None else to_seconds(remaining)

    @property
    def is_expired(self) -> bool:
        """Whether the limit is used up and the coordinator has confirmed that the thread runs (G1), or `max_wall` is over.
        For ever, then.
        """
        return self._ticking.is_expired

    @property
    def ended_by(self) -> EndedBy | None:
        """Which limit ended it; None: it runs, or was stopped."""
        return self._ticking.ended_by

    @property
    def is_paused(self) -> bool:
        """Whether it stands still, by a pause of its own or of its thread."""
        with self._lock:
            return self._ticking.is_paused

    @property
    def is_linked(self) -> bool:
        """Whether the state of its thread is known and the connection is up."""
        with self._lock:
            return self._ticking.is_linked

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pauses while the block lives. Pauses nest: it runs again when the last one ends."""
        with self._lock:
            self._ticking.pause()
        try:
            yield
        finally:
            with self._lock:
                self._ticking.resume()

    @contextmanager
    def await_thread(self, thread_id: str) -> Iterator[None]:
        """Stands still while that thread is paused too, as long as the block lives: for work that waits for a sub-agent.

        A moment in which several threads are paused counts once. The same thread may be awaited several times: it counts
        until the last block ends. Threads that it awaits itself do not count.

        Raises InvalidField: no thread can have this id, or it is the stopwatch's own.
        """
        check_thread_id(thread_id)
        if thread_id == self._thread_id:
            raise InvalidField.of("thread_id", f"is {thread_id!r}, the stopwatch's own thread; allowed: another thread")
        with self._lock:
            self._ticking.await_thread(thread_id)
        try:
            yield
        finally:
            with self._lock:
                self._ticking.unawait_thread(thread_id)

    def call_when_expired(self, callback: Callable[[], object]) -> None:
        """Calls it once when the stopwatch expires, soon if it has; never if it is stopped before.

        Until then the stopwatch lives, and its client with it, also if nobody keeps them.

        The client has one thread for all such callbacks of a synchronous client, and the event loop runs those of an
        asynchronous one: keep them short. What they raise is logged.
        """
        with self._lock:
            # Without a limit there is nothing to live for.
            self._ending.call(callback, keep=self if self._can_expire else None)

    def _set_left(self, left: Seconds | None) -> None:
        nanos = None if left is None else max(0, to_nanos(left))
        with self._lock:
            self._ticking.set_left(nanos)

    def stop(self) -> None:
        """Ends it before its time: it will not expire. Again, or after its end, does nothing."""
        self._ending.close()


class Stopwatch(_Stopwatch["Connection"]):
    """A stopwatch for threads. Made by `Client.stopwatch`; runs from then until it expires, or is stopped by the end of its
    `with` block.
    """

    def __init__(
        self,
        connection: Connection,
        thread_id: str,
        limit: Seconds | None,
        max_wall: Seconds | None,
        grace: Seconds,
    ) -> None:
        self._ended = threading.Event()
        super().__init__(connection, thread_id, limit, max_wall, grace, self._ended.set)

    def wait_expired(self, timeout: Seconds | None = None) -> bool:
        """Waits until it has expired, and then is true; false: `timeout` passed before, or it was stopped."""
        self._ended.wait(to_wait(timeout))
        return self.is_expired

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class AsyncStopwatch(_Stopwatch["AsyncConnection"]):
    """A stopwatch for tasks. Made by `AsyncClient.stopwatch`; runs from then until it expires, or is stopped by the end of
    its `async with` block.
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
        """Waits until it has expired, and then is true; false: it was stopped. Cancelled, nothing is lost."""
        await self._ended.wait()
        return self.is_expired

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
