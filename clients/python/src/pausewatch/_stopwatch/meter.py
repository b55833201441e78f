"""What one stopwatch has been charged: wall time, less its threads' paused time, less its own pauses.

Pure: no clock is read; `now` and the paused time of its threads (`paused_time`, see `Follows`) are arguments.
The charged time is kept up to a mark and computed from there, so each operation is a few additions.

1. What is charged is never below zero, and what is shown never goes backwards: paused time that arrives late shows as a
   standstill until it is used up.
2. Where a pause of the stopwatch's own and one of its thread overlap, the time counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._io.durations import Nanos


class Meter:
    """Made at `now`, when the thread's paused time is `paused_time`. No limit: it only counts."""

    __slots__ = ("_charged", "_limit", "_mark", "_paused_time_at_mark", "_pauses", "_shown")

    def __init__(self, limit: Nanos | None, now: Nanos, paused_time: Nanos) -> None:
        self._limit = limit
        self._charged: Nanos = 0
        self._mark = now
        self._paused_time_at_mark = paused_time
        self._pauses = 0
        self._shown: Nanos = 0

    @property
    def is_paused(self) -> bool:
        """Whether it stands still by a pause of its own."""
        return self._pauses > 0

    def pause(self, now: Nanos, paused_time: Nanos) -> None:
        """Opens a pause of its own; they nest."""
        self.settle(now, paused_time)
        self._pauses += 1

    def resume(self, now: Nanos, paused_time: Nanos) -> None:
        """Ends one of its own pauses."""
        self.settle(now, paused_time)
        self._pauses = max(0, self._pauses - 1)

    def settle(self, now: Nanos, paused_time: Nanos) -> None:
        """Moves the mark."""
        charged = self.charged(now, paused_time)
        self._charged, self._mark, self._paused_time_at_mark = charged, max(self._mark, now), paused_time

    def charged(self, now: Nanos, paused_time: Nanos) -> Nanos:
        """What has been charged, as exactly as is known now."""
        span = max(0, now - self._mark)
        # Negative when less was paused than had been assumed while cut off.
        growth = paused_time - self._paused_time_at_mark
        if self._pauses == 0 or growth > span:
            since_mark = span - growth
        else:
            # All of the span is free already; what the thread was paused beyond it was paused before the mark.
            since_mark = max(0, -growth)
        charged = self._charged + since_mark
        if charged < 0:
            # More paused time than time: the rest must not be spent later.
            self._charged, self._mark, self._paused_time_at_mark = 0, max(self._mark, now), paused_time
            return 0
        return charged

    def left(self, now: Nanos, paused_time: Nanos) -> Nanos | None:
        """How far below its limit it is; beyond it, below zero. None: it has no limit."""
        return None if self._limit is None else self._limit - self.charged(now, paused_time)

    def set_left(self, now: Nanos, paused_time: Nanos, left: Nanos | None) -> None:
        """Changes the limit, so that this is left of it. None: it has no limit any more."""
        self._limit = None if left is None else self.charged(now, paused_time) + left

    def elapsed(self, now: Nanos, paused_time: Nanos) -> Nanos:
        """What to show as elapsed."""
        self._shown = max(self._shown, self.charged(now, paused_time))
        return self._shown

    def remaining(self, now: Nanos, paused_time: Nanos) -> Nanos | None:
        """What to show as remaining: with `elapsed` it makes up the limit."""
        elapsed = self.elapsed(now, paused_time)
        return None if self._limit is None else max(0, self._limit - elapsed)
