"""The states of threads, across reconnects, until the watch is closed.

A lost connection, or 30 s without a message (two heartbeats), is reported as `Disconnected`; then the watch reconnects,
after 50 to 100 ms at first and 3 to 6 s at most. A slow reader gets the latest state of each thread, not every state:
memory is bounded by the number of threads. A watch of all threads is bounded by `BACKLOG`: beyond it the stream is not read,
and the server keeps the latest states for later.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Self

from ._io.calls import check_thread_id
from ._io.durations import Seconds, to_wait
from ._io.signal import Signal
from ._io.types import wrong_type
from ._io.workers import Wake
from ._watch.events import Disconnected, Event, SnapshotComplete, State
from ._watch.pending import Pending
from ._watch.watching import Watching
from .errors import InvalidField
from .v1 import elicitation_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._io.async_connection import AsyncConnection
    from ._io.connection import Connection
    from ._io.durations import Nanos
    from ._io.runtime import Runtime

__all__ = ["AsyncWatch", "Disconnected", "Event", "SnapshotComplete", "State", "Watch"]


BACKLOG = 10_000
"""The number of unread events at which a watch of all threads stops reading its stream."""


class _Reading:
    """Passes the events of one watch to its reader."""

    def __init__(
        self, runtime: Runtime, deadline: Nanos, thread_ids: Iterable[str] | None, elicitations: bool, observer: bool
    ) -> None:
        chosen = None if thread_ids is None else _checked(thread_ids)
        self.closed = False
        # Wakes the reader; set once there is one.
        self.wake: Callable[[], None] = _no_reader
        self._runtime = runtime
        self._pending = Pending()
        self._is_bounded_by_threads = chosen is not None
        self._reading_stopped = False
        setup = pb.WatchRequest(all_threads=chosen is None, include_elicitations=elicitations, observer=observer)
        self._watching = Watching(runtime, deadline, self._put, setup=setup)
        runtime.do(partial(self._add, chosen or ()))

    def close(self) -> None:
        if self._runtime.is_foreign:
            self.closed = True
            return
        self._runtime.do(self._close)

    def _close(self) -> None:
        self.closed = True
        self._watching.close()
        self.wake()

    def add(self, thread_id: str) -> None:
        check_thread_id(thread_id)
        if self._is_bounded_by_threads:
            self._runtime.do(partial(self._add, [thread_id]))

    def _add(self, thread_ids: Iterable[str]) -> None:
        for thread_id in thread_ids:
            self._watching.add(thread_id)
        self._watching.start()

    def remove(self, thread_id: str) -> None:
        if self._is_bounded_by_threads:
            self._runtime.do(partial(self._watching.remove, thread_id))

    @property
    def has_event(self) -> bool:
        return len(self._pending) > 0

    def take(self) -> Event:
        """Removes and returns the oldest event. Raises KeyError if there is none."""
        event = self._pending.take()
        if self._reading_stopped and len(self._pending) < BACKLOG:
            self._reading_stopped = False
            self._runtime.submit(self._watching.resume_reading)
        return event

    def _put(self, event: Event) -> None:
        self._pending.put(event)
        if not self._is_bounded_by_threads and not self._reading_stopped and len(self._pending) >= BACKLOG:
            self._reading_stopped = True
            self._watching.stop_reading()
        self.wake()


class Watch:
    """A watch as an iterator of events; made by `Client.watch`. A `with` block, or `close`, ends it.

    Iterating waits for the next event, and ends when the watch is closed. Any thread may close it.
    """

    def __init__(self, connection: Connection, thread_ids: Iterable[str] | None, elicitations: bool, observer: bool) -> None:
        runtime = connection.runtime
        self._connection = connection
        self._reading = _Reading(runtime, connection.deadline, thread_ids, elicitations, observer)
        self._lock = runtime.lock
        self._changed = Wake()
        self._reading.wake = self._changed.fire
        connection.dependents.add(self._reading)
        weakref.finalize(self, runtime.submit, self._reading.close).atexit = False

    def next(self, timeout: Seconds | None = None) -> Event | None:
        """Waits for the next event. Returns None if none arrived within `timeout`, or the watch is closed."""
        reading = self._reading
        give_up = None if (seconds := to_wait(timeout)) is None else time.monotonic() + seconds
        while self._changed.wait_for(
            lambda: reading.has_event or reading.closed, None if give_up is None else give_up - time.monotonic()
        ):
            with self._lock:
                if reading.closed:
                    return None
                # Another reader may have taken it.
                if reading.has_event:
                    return reading.take()
        return None

    def add(self, thread_id: str) -> None:
        """Adds a thread: its state is delivered, then `SnapshotComplete` again. Does nothing if the thread, or every thread, is
        watched already.

        Raises InvalidField: the id is not valid; nothing changed.
        """
        self._reading.add(thread_id)

    def remove(self, thread_id: str) -> None:
        """Removes a thread; unread states of it may still be delivered. Does nothing if all threads are watched."""
        self._reading.remove(thread_id)

    def close(self) -> None:
        """Ends the watch. Calling it again does nothing."""
        self._reading.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncWatch:
    """A watch as an asynchronous iterator of events; made by `AsyncClient.watch`.

    An `async with` block, or `close`, ends it. If a task is cancelled while it waits, no event is lost.
    """

    def __init__(self, connection: AsyncConnection, thread_ids: Iterable[str] | None, elicitations: bool, observer: bool) -> None:
        runtime = connection.runtime
        self._connection = connection
        self._reading = _Reading(runtime, connection.deadline, thread_ids, elicitations, observer)
        self._changed = Signal()
        self._reading.wake = self._changed.fire
        connection.dependents.add(self._reading)
        weakref.finalize(self, runtime.submit, self._reading.close).atexit = False

    def add(self, thread_id: str) -> None:
        """Adds a thread: its state is delivered, then `SnapshotComplete` again. Does nothing if the thread, or every thread, is
        watched already.

        Raises InvalidField: the id is not valid; nothing changed.
        """
        self._reading.add(thread_id)

    def remove(self, thread_id: str) -> None:
        """Removes a thread; unread states of it may still be delivered. Does nothing if all threads are watched."""
        self._reading.remove(thread_id)

    def close(self) -> None:
        """Ends the watch. Calling it again does nothing."""
        self._reading.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not (self._reading.has_event or self._reading.closed):
            await self._changed.wait()
        if self._reading.closed:
            raise StopAsyncIteration
        return self._reading.take()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _checked(thread_ids: Iterable[str]) -> list[str]:
    if isinstance(thread_ids, str):
        raise TypeError("thread_ids is a collection of ids, not one string")
    if not isinstance(thread_ids, Iterable):
        raise wrong_type("thread_ids", thread_ids, "a collection of ids")
    chosen = list(thread_ids)
    if not chosen:
        raise InvalidField.of("thread_ids", "is empty; leave it out to watch every thread")
    for thread_id in chosen:
        check_thread_id(thread_id)
    return chosen


def _no_reader() -> None:
    """Does nothing: there is no reader to wake yet."""
