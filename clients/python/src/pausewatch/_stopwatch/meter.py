"""The time that one stopwatch has been charged: wall time, less its threads' paused time, less its own pauses.

Pure: no clock is read; `now` and the paused time of its threads (`paused_time`, see `Follows`) are arguments.
The charged time is stored up to a mark and computed from there, so each operation is a few additions.

1. The charged time is never below zero, and the elapsed time never decreases: if paused time becomes known late, the elapsed
   time stands still until the charged time has caught up.
2. Where a pause of the stopwatch itself and a pause of its thread overlap, the time is subtracted once. If the thread was not
   paused then after all, the time is still not charged: see `covered`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .covered import Covered

if TYPE_CHECKING:
    from .._io.durations import Nanos


class Meter:
    """Starts at `now`, when the thread's paused time is `paused_time`. `limit` None: there is no limit."""

    __slots__ = ("_charged", "_covered", "_limit", "_mark", "_paused_time_at_mark", "_pauses", "_shown")

    def __init__(self, limit: Nanos | None, now: Nanos, paused_time: Nanos) -> None:
        self._limit = limit
        self._charged: Nanos = 0
        self._mark = now
        self._paused_time_at_mark = paused_time
        self._pauses = 0
        self._covered = Covered()
        self._shown: Nanos = 0

    @property
    def is_paused(self) -> bool:
        """Whether a pause of its own is open."""
        return self._pauses > 0

    def pause(self, now: Nanos, paused_time: Nanos) -> None:
        """Opens a pause of its own. These pauses nest."""
        self.settle(now, paused_time)
        self._pauses += 1

    def resume(self, now: Nanos, paused_time: Nanos) -> None:
        """Closes one of its own pauses."""
        self.settle(now, paused_time)
        self._pauses = max(0, self._pauses - 1)

    def settle(self, now: Nanos, paused_time: Nanos) -> None:
        """Moves the mark to `now`."""
        self._move_mark(self.charged(now, paused_time), now, paused_time)

    def charged(self, now: Nanos, paused_time: Nanos) -> Nanos:
        """The charged time, as exactly as it is known now."""
        span = max(0, now - self._mark)
        # Negative if the thread was paused for less time than was assumed while disconnected.
        growth = paused_time - self._paused_time_at_mark
        if self._pauses == 0 or growth > span:
            since_mark = span - growth
        else:
            # Nothing of the span is charged anyway. Only a correction of the paused time before the mark is charged.
            since_mark = max(0, -growth)
        charged = self._charged + since_mark - self._covered.beyond(paused_time)
        if charged < 0:
            # More paused time than wall time: the rest must not be credited later.
            self._move_mark(0, now, paused_time)
            return 0
        return charged

    def _move_mark(self, charged: Nanos, now: Nanos, paused_time: Nanos) -> None:
        self._covered.cut(paused_time)
        if self.is_paused:
            # Paused time beyond the length of its own pause is older than that pause.
            span = max(0, now - self._mark)
            self._covered.add(max(self._paused_time_at_mark, paused_time - span), paused_time)
        self._charged, self._mark, self._paused_time_at_mark = charged, max(self._mark, now), paused_time

    def left(self, now: Nanos, paused_time: Nanos) -> Nanos | None:
        """The limit less the charged time; negative beyond the limit. None: it has no limit."""
        return None if self._limit is None else self._limit - self.charged(now, paused_time)

    def set_left(self, now: Nanos, paused_time: Nanos, left: Nanos | None) -> None:
        """Changes the limit, so that `left` remains. None: it has no limit any more."""
        self._limit = None if left is None else self.charged(now, paused_time) + left

    def elapsed(self, now: Nanos, paused_time: Nanos) -> Nanos:
        """The elapsed time to report; never decreases."""
        self._shown = max(self._shown, self.charged(now, paused_time))
        return self._shown

    def remaining(self, now: Nanos, paused_time: Nanos) -> Nanos | None:
        """The remaining time to report: the limit less the elapsed time."""
        elapsed = self.elapsed(now, paused_time)
        return None if self._limit is None else max(0, self._limit - elapsed)
