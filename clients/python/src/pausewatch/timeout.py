"""`async with pausable_timeout(…)`: asyncio.timeout, with a clock that stands still while the thread is paused.

The block is ended by an `asyncio.Timeout` that is rescheduled to now when the stopwatch expires. So cancellation, nesting and
`uncancel` are those of asyncio, and a TimeoutError is raised exactly where asyncio.timeout would raise it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from .stopwatch import AsyncStopwatch, EndedBy

if TYPE_CHECKING:
    from types import TracebackType

    from ._io.async_connection import AsyncConnection
    from ._io.durations import Seconds


class PausableTimeout:
    """A time limit for an `async with` block. Made by `pausable_timeout` and `AsyncClient.pausable_timeout`.

    A block that exceeds its limit is cancelled, and TimeoutError is raised. The time runs from the entry of the block.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        thread_id: str,
        limit: Seconds | None,
        max_wall: Seconds | None,
        grace: Seconds,
    ) -> None:
        self._connection = connection
        self._thread_id = thread_id
        self._limit = limit
        self._max_wall = max_wall
        self._grace = grace
        self._timeout = asyncio.timeout(None)
        self._stopwatch: AsyncStopwatch | None = None
        self._left = False

    @property
    def stopwatch(self) -> AsyncStopwatch:
        """Its stopwatch: to pause it, and to read the remaining time.

        Raises RuntimeError before the block is entered.
        """
        if self._stopwatch is None:
            raise RuntimeError("this timeout has not been entered")
        return self._stopwatch

    def when(self) -> float | None:
        """When it expires if it is not paused from now on, by the clock of the event loop, as `asyncio.Timeout.when`. None: it
        has no limit. `max_wall` is not considered.

        Raises RuntimeError before the block is entered.
        """
        remaining = self.stopwatch.remaining()
        return None if remaining is None else asyncio.get_running_loop().time() + remaining

    def reschedule(self, when: float | None) -> None:
        """Changes the limit, so that it expires at `when` if it is not paused from now on, as `asyncio.Timeout.reschedule`. A
        moment in the past ends it soon; None: it has no limit any more. `max_wall` does not change.

        Raises RuntimeError before the block is entered, and after it has ended or expired.
        """
        if self._left or self.stopwatch.is_expired:
            raise RuntimeError("this timeout has ended")
        left = None if when is None else when - asyncio.get_running_loop().time()
        self.stopwatch._set_left(left)  # noqa: SLF001 # Stopwatches have no such method: they begin anew.

    def expired(self) -> bool:
        """Whether this timeout ended the block."""
        return self._timeout.expired()

    @property
    def ended_by(self) -> EndedBy | None:
        """The limit that ended the block; None: no limit did."""
        return self._stopwatch.ended_by if self._stopwatch is not None and self.expired() else None

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._stopwatch = AsyncStopwatch(self._connection, self._thread_id, self._limit, self._max_wall, self._grace)
        self._stopwatch.call_when_expired(self._end_block)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left = True
        self.stopwatch.stop()
        await self._timeout.__aexit__(kind, error, traceback)

    def _end_block(self) -> None:
        # The block may have been left since the stopwatch expired.
        if not self._left:
            self._timeout.reschedule(asyncio.get_running_loop().time())
