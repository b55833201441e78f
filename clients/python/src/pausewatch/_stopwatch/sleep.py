"""How long the machine has slept (suspend, hibernation) since it started."""

from __future__ import annotations

import time

from .._io.durations import Nanos

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)
"""The clock that counts sleep. Linux has it; elsewhere a pause that spans a sleep is credited whole, up to the time that
was charged."""


def slept() -> Nanos:
    """The difference between the clock that counts sleep and the one that does not."""
    if _BOOTTIME is None:
        return 0
    # Read in this order, an interruption between the two makes the difference too small, never too large.
    with_sleep = time.clock_gettime_ns(_BOOTTIME)
    return max(0, with_sleep - time.monotonic_ns())
