"""How long the machine has slept (suspend, hibernation) since it started."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .._io.durations import Nanos

if TYPE_CHECKING:
    from collections.abc import Callable

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)
"""The clock that runs during sleep. Only Linux has it; elsewhere, the sleep within a pause is credited too, up to the time that
was charged."""


_LONGEST_READING: Nanos = 10_000_000
"""An interruption between the readings of two clocks that is this long could be taken for a sleep."""


def slept() -> Nanos:
    """The difference between the clock that runs during sleep and the one that does not."""
    if _BOOTTIME is None:
        return 0
    boottime = _BOOTTIME
    return difference(time.monotonic_ns, lambda: time.clock_gettime_ns(boottime))


def difference(awake: Callable[[], Nanos], with_sleep: Callable[[], Nanos]) -> Nanos:
    """How far `with_sleep` is ahead of `awake`.

    The clocks are read again after an interruption; on a machine that is too busy for that, the shortest of 100 readings counts.
    """
    shortest, ahead = None, 0
    for _ in range(100):
        before, at, after = awake(), with_sleep(), awake()
        if shortest is None or after - before < shortest:
            shortest, ahead = after - before, at - after
        if shortest < _LONGEST_READING:
            break
    return max(0, ahead)
