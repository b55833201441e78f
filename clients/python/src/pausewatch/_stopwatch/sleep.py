"""How long the machine has slept (suspend, hibernation) since it started."""

from __future__ import annotations

import time

from .._io.durations import Nanos

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)
"""The clock that runs during sleep. Only Linux has it; elsewhere, the sleep within a pause is credited too, up to the time that
was charged."""


def slept() -> Nanos:
    """The difference between the clock that runs during sleep and the one that does not."""
    if _BOOTTIME is None:
        return 0
    # In this order, an interruption between the two readings makes the difference too small, never too large.
    with_sleep = time.clock_gettime_ns(_BOOTTIME)
    return max(0, with_sleep - time.monotonic_ns())
