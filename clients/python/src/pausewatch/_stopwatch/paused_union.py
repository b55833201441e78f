"""How long any of several threads has been paused. Pure: no clock is read, and the paused time of each thread is an argument.

While all of them are heard, that is exact: `settle` marks every change of one, and between two marks each was paused all
the while or not at all. Of a gap, in which one could not be heard, it is learnt how long each was paused, but not when:

1. A gap counts as much as is possible: the sum of their pauses, but at most its length, and at least the longest. So no
   pause is ever charged, and what is too much is less than the gap.
2. A thread that is removed in a gap counts with what is known of it by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._io.durations import Nanos


class PausedUnion:
    """Made at `now`. Threads have names; `paused_times` are those of all of them, each by its own count."""

    __slots__ = ("_at_mark", "_gone", "_mark", "_total")

    def __init__(self, now: Nanos) -> None:
        # The union up to the mark, and the paused time of each thread there.
        self._total: Nanos = 0
        self._mark = now
        self._at_mark: dict[str, Nanos] = {}
        # How long those were paused that were removed since the mark.
        self._gone: list[Nanos] = []

    def add(self, name: str, paused_time: Nanos) -> None:
        """From now on that thread counts too."""
        self._at_mark[name] = paused_time

    def remove(self, name: str, paused_time: Nanos) -> None:
        """From now on that thread does not count."""
        self._gone.append(paused_time - self._at_mark.pop(name))

    def settle(self, now: Nanos, paused_times: Mapping[str, Nanos]) -> None:
        """Moves the mark: a change of a thread, or the end of a gap. What is earlier than the mark changes nothing."""
        if now >= self._mark:
            self._total = self.total(now, paused_times)
            self._mark, self._at_mark, self._gone = now, dict(paused_times), []

    def total(self, now: Nanos, paused_times: Mapping[str, Nanos]) -> Nanos:
        """How long any of them has been paused, as far as is known now."""
        grown = [time - self._at_mark[name] for name, time in paused_times.items()] + self._gone
        # The longest may be longer than the time since the mark: a correction of what was assumed before.
        return self._total + max(max(grown), min(sum(grown), max(0, now - self._mark)))
