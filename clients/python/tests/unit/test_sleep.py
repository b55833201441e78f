"""How long the machine has slept."""

from __future__ import annotations

import pytest

from pausewatch._stopwatch.sleep import difference

_MS = 1_000_000
_HOUR = 3_600_000 * _MS


@pytest.mark.parametrize("interruptions", [[], [0, 0, 500], [0, 500], [0, 0, 500, 0, 0, 500, 0, 500, 500], [900, 9, 0]], ids=str)
def test_an_interruption_between_the_clocks_is_no_sleep(interruptions: list[int]) -> None:
    now, left = 7_000 * _MS, iter(interruptions)

    def tick() -> int:
        """The process is interrupted before each reading of a clock, for so many milliseconds."""
        nonlocal now
        now += next(left, 0) * _MS
        return now

    assert difference(tick, lambda: tick() + _HOUR) == _HOUR
