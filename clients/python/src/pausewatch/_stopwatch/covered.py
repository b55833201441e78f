"""The part of its threads' paused time that a stopwatch did not use, because it had a pause of its own at that time.

If the thread turns out to have been paused for less time than was assumed, the newest part of its paused time is taken back: an
assumed pause ended early. What is taken back is charged, except for the part that was covered, which was never credited.

The parts are kept in order, not only as a sum: an old part, in which the thread was really paused, must not compensate for a
later error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._io.durations import Nanos

_MAX_PARTS = 32
"""Beyond this number, the two oldest parts are merged. A correction rarely reaches so far back; if it does, it charges too
little."""


class Covered:
    __slots__ = ("_parts",)

    def __init__(self) -> None:
        # Each part: the paused time at its begin and at its end. The oldest part is first.
        self._parts: list[tuple[Nanos, Nanos]] = []

    def beyond(self, paused_time: Nanos) -> Nanos:
        """How much of the paused time beyond `paused_time` is covered."""
        return sum(max(0, end - max(begin, paused_time)) for begin, end in self._parts)

    def cut(self, paused_time: Nanos) -> None:
        """Removes what is covered beyond `paused_time`."""
        while self._parts and self._parts[-1][1] > paused_time:
            begin, _ = self._parts.pop()
            if begin < paused_time:
                self._parts.append((begin, paused_time))

    def add(self, begin: Nanos, end: Nanos) -> None:
        """Covers the paused time from `begin`, which is not before the last part, to `end`."""
        if begin >= end:
            return
        if self._parts and self._parts[-1][1] == begin:
            begin, _ = self._parts.pop()
        self._parts.append((begin, end))
        if len(self._parts) > _MAX_PARTS:
            (oldest, _), (_, end) = self._parts[:2]
            self._parts[:2] = [(oldest, end)]
