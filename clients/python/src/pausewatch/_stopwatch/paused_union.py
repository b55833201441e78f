"""How long any of several threads has been paused. Pure: no clock is read, and the paused time of each thread is an argument.

While all threads are linked, the result is exact: `settle` sets a mark at every change, and between two marks each thread was
paused all the time or not at all. After a gap, in which a thread was not linked, it is known how long each thread was paused,
but not when:

1. A gap counts as the largest possible union: the sum of the pauses, but at most the length of the gap, and at least the
   longest pause. So no pause is ever charged, and the excess is less than the gap.
2. A thread that is removed in a gap counts with its paused time that is known at that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._io.durations import Nanos


class PausedUnion:
    """Starts at `now`. `paused_times` has the paused time of every thread, by name; each has its own zero."""

    __slots__ = ("_at_mark", "_mark", "_removed", "_total")

    def __init__(self, now: Nanos) -> None:
        # The union up to the mark, and the paused time of each thread at the mark.
        self._total: Nanos = 0
        self._mark = now
        self._at_mark: dict[str, Nanos] = {}
        # How long each thread that was removed since the mark was paused since the mark.
        self._removed: list[Nanos] = []

    def add(self, name: str, paused_time: Nanos) -> None:
        """Adds a thread, which counts from now on."""
        self._at_mark[name] = paused_time

    def remove(self, name: str, paused_time: Nanos) -> None:
        """Removes a thread, which does not count from now on."""
        self._removed.append(paused_time - self._at_mark.pop(name))

    def settle(self, now: Nanos, paused_times: Mapping[str, Nanos]) -> None:
        """Moves the mark to `now`: a thread changes, or a gap ends. Does nothing if `now` is before the mark."""
        if now >= self._mark:
            self._total = self.total(now, paused_times)
            self._mark, self._at_mark, self._removed = now, dict(paused_times), []

    def total(self, now: Nanos, paused_times: Mapping[str, Nanos]) -> Nanos:
        """How long any of the threads has been paused, as far as it is known now."""
        grown = [time - self._at_mark[name] for name, time in paused_times.items()] + self._removed
        # The longest may be longer than the time since the mark: a correction of what was assumed before.
        return self._total + max(max(grown), min(sum(grown), max(0, now - self._mark)))
