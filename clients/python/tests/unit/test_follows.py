"""The paused time of a thread, as a stopwatch that joined it counts it, and what is charged with it."""

from __future__ import annotations

from pausewatch._stopwatch.follows import Follow
from pausewatch._stopwatch.meter import Meter
from pausewatch._stopwatch.paused_time import JoinBaseline


class Clock:
    """A thread whose paused time is what the test says."""

    def __init__(self, paused_time: int) -> None:
        self.paused = paused_time
        self.joined = JoinBaseline()

    def join(self, now: int) -> tuple[int, JoinBaseline]:
        return self.paused, self.joined

    def paused_time(self, now: int) -> int:
        return self.paused


class Joining:
    """A stopwatch with a limit of 10 that has joined at `now`, when the thread was assumed to stand at `paused_time`."""

    def __init__(self, now: int, paused_time: int) -> None:
        self.clock = Clock(paused_time)
        self.follow = Follow(self.clock, now)  # type: ignore[arg-type]
        self.meter = Meter(10, now, self.follow.paused_time(now))

    def pause(self, now: int, paused_time: int) -> None:
        self.meter.pause(now, self._use(now, paused_time))

    def resume(self, now: int, paused_time: int) -> None:
        self.meter.resume(now, self._use(now, paused_time))

    def place(self, now: int, paused_time: int, paused_for: int = 0) -> None:
        self.clock.joined.value = (now, paused_time, paused_for)

    def charged(self, now: int, paused_time: int) -> int:
        self.clock.paused = paused_time
        return self.meter.charged(now, self.follow.paused_time(now))

    def _use(self, now: int, paused_time: int) -> int:
        self.clock.paused = paused_time
        self.follow.settle(now)
        return self.follow.paused_time(now)


def test_g1_a_late_baseline_changes_the_charged_time_by_at_most_the_time_since_the_join() -> None:
    # 2 s since it joined; it was assumed to stand at 50 s all the time.
    for paused_time, charged in [(0, 2), (50, 2), (51, 1), (900, 0)]:
        joining = Joining(1, 50)
        joining.place(3, paused_time)
        assert joining.charged(3, paused_time) == charged, paused_time
        assert joining.charged(5, paused_time + 1) == charged + 1, paused_time


def test_g1_a_late_baseline_credits_the_open_pause_since_the_join() -> None:
    # 2 s since it joined; it was assumed to stand at 50 s all the time.
    for paused_time, paused_for, charged in [(50, 2, 0), (40, 2, 0), (50, 1, 1), (40, 1, 1), (50, 900, 0), (51, 1, 1)]:
        joining = Joining(1, 50)
        joining.place(3, paused_time, paused_for)
        assert joining.charged(3, paused_time) == charged, (paused_time, paused_for)
        assert joining.charged(5, paused_time + 1) == charged + 1, (paused_time, paused_for)


def test_g3_a_late_baseline_counts_from_the_join_despite_own_pauses() -> None:
    # A pause of its own from 5 s to 6 s, and the baseline at 7 s.
    for paused_time, charged in [(50, 6), (54, 2), (900, 0)]:
        joining = Joining(0, 50)
        joining.pause(5, 50)
        joining.resume(6, 50)
        joining.place(7, paused_time)
        assert joining.charged(7, paused_time) == charged, paused_time
        assert joining.charged(8, paused_time) == charged + 1, paused_time


def test_a_late_baseline_charges_nothing_for_an_own_pause() -> None:
    # Its thread was assumed to be paused all the time, and was not.
    joining = Joining(0, 50)
    joining.pause(1, 51)
    joining.resume(6, 56)
    joining.place(8, 50)
    assert joining.charged(8, 50) == 2
