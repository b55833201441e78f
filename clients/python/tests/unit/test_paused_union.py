"""How long any of several threads has been paused."""

from __future__ import annotations

import pytest

from pausewatch._stopwatch.paused_union import PausedUnion


def of(now: int, *paused_times: int) -> PausedUnion:
    union = PausedUnion(now)
    for number, paused_time in enumerate(paused_times):
        union.add(str(number), paused_time)
    return union


def times(*paused_times: int) -> dict[str, int]:
    return {str(number): paused_time for number, paused_time in enumerate(paused_times)}


def test_a_single_thread_counts_exactly_also_after_a_correction() -> None:
    union = of(0, 0)
    for now, paused_time in [(5, 3), (6, 2), (7, 7), (7, 9), (8, -1)]:
        assert union.total(now, times(paused_time)) == paused_time


def test_g3_pauses_that_overlap_count_once() -> None:
    # One is paused from 10 to 20, the other from 15 to 40.
    union = of(0, 100, 200)
    union.settle(10, times(100, 200))
    union.settle(15, times(105, 200))
    assert union.total(18, times(108, 203)) == 8
    union.settle(20, times(110, 205))
    assert union.total(30, times(110, 215)) == 20
    union.settle(40, times(110, 225))
    assert union.total(50, times(110, 225)) == 30


@pytest.mark.parametrize(
    ("missed", "counts"),
    [((4, 5), 9), ((8, 7), 10), ((0, 6), 6), ((0, 0), 0), ((10, 10), 10), ((12, 1), 12), ((-3, 0), 0), ((-3, 5), 2 + 3)],
)
def test_g1_a_gap_counts_as_the_largest_possible_union(missed: tuple[int, int], counts: int) -> None:
    # From 10 to 20, of which only the paused times are known afterwards.
    union = of(0, 0, 0)
    union.settle(10, times(10, 0))
    assert union.total(20, times(10 + missed[0], missed[1])) == 10 + counts
    union.settle(20, times(10 + missed[0], missed[1]))
    assert union.total(30, times(10 + missed[0], missed[1])) == 10 + counts


def test_removed_threads_count_until_their_removal_and_added_ones_from_their_addition() -> None:
    union = of(0, 0, 0)
    union.settle(10, times(0, 0))
    union.remove("1", 6)
    assert union.total(16, times(0)) == 6
    union.add("2", 1_000)
    assert union.total(20, {"0": 2, "2": 1_001}) == 9
    assert union.total(20, {"0": 9, "2": 1_009}) == 10, "never more than the gap"
    union.settle(20, {"0": 2, "2": 1_001})
    assert union.total(30, {"0": 2, "2": 1_011}) == 19


def test_settling_before_the_mark_changes_nothing() -> None:
    union = of(0, 0, 0)
    union.settle(20, times(10, 0))
    union.settle(15, times(5, 0))
    assert union.total(20, times(10, 0)) == 10
