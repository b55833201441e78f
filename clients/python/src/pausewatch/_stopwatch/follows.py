"""The threads whose pauses stop one stopwatch: its own, and those that it awaits.

1. A thread that is awaited several times is followed once, until the last of these waits ends.
2. The union of their pauses is settled at every change while all threads are linked, but not within a gap: see
   `paused_union`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .paused_union import PausedUnion

if TYPE_CHECKING:
    from .._io.durations import Nanos
    from .controller import Controller
    from .paused_time import JoinBaseline
    from .thread_clock import ThreadClock, Waiter


class Follow:
    """One thread, since a stopwatch joined it at `now`."""

    __slots__ = ("_assumed", "_baseline", "_settled", "_shift", "awaited", "clock", "joined_at")

    def __init__(self, clock: ThreadClock, now: Nanos) -> None:
        self.clock = clock
        self.joined_at = now
        self.awaited = 1
        self._assumed, baseline = clock.join(now)
        self._baseline: JoinBaseline | None = baseline
        # The difference between the thread's paused time and the paused time since the join.
        self._shift = -self._assumed
        self._settled: Nanos = 0

    def paused_time(self, now: Nanos) -> Nanos:
        """How long the thread has been paused since the join.

        Until the next state, the thread's paused time at the join is only an assumption. The difference between the assumption
        and that state may be older than the join. So at most the time since the join is credited, and at least the open pause
        of that state. Paused time that was settled meanwhile is never charged again: the stopwatch may have had a pause of its
        own in that time.
        """
        if self._baseline is not None and self._baseline.value is not None:
            at, paused_time, paused_for = self._baseline.value
            growth = min(max(paused_for, paused_time - self._assumed), max(0, at - self.joined_at))
            self._shift = max(growth, self._settled) - paused_time
            self._baseline = None
        return self.clock.paused_time(now) + self._shift

    def settle(self, now: Nanos) -> None:
        """Notes that the stopwatch has used the paused time of `now`."""
        self._settled = self.paused_time(now)


class Follows:
    """The threads of one stopwatch, which joined `thread_id` at `now`. Each thread is registered with the controller once."""

    def __init__(self, controller: Controller, thread_id: str, now: Nanos) -> None:
        self._controller = controller
        self._union = PausedUnion(now)
        self._follows: dict[str, Follow] = {}
        self._own = self._enter(thread_id, now)

    @property
    def all(self) -> list[Follow]:
        """Its own thread, and then those that it awaits."""
        return list(self._follows.values())

    @property
    def is_linked(self) -> bool:
        """Whether the state of all threads is known and their watch is connected."""
        return all(follow.clock.is_linked for follow in self._follows.values())

    def is_paused(self, now: Nanos) -> bool:
        return any(follow.clock.is_paused(now) for follow in self._follows.values())

    def paused_time(self, now: Nanos) -> Nanos:
        """How long any of the threads has been paused."""
        return self._union.total(now, self._paused_times(now))

    def used(self, now: Nanos) -> None:
        """Notes that the stopwatch has used the paused time of `now`."""
        for follow in self._follows.values():
            follow.settle(now)

    def settle(self, now: Nanos) -> None:
        """Settles the union: one of the threads changes."""
        if self.is_linked:
            self._union.settle(now, self._paused_times(now))

    def add(self, thread_id: str, now: Nanos) -> None:
        """Awaits a thread. A thread that is already awaited, or is the stopwatch's own, is followed only once."""
        if (follow := self._follows.get(thread_id)) is not None:
            follow.awaited += 1
            return
        self.settle(now)
        self._own.clock.observe(self)
        self._enter(thread_id, now).clock.observe(self)

    def remove(self, thread_id: str, now: Nanos) -> Follow | None:
        """Ends one `add`. Returns the thread if this was the last wait for it."""
        follow = self._follows[thread_id]
        follow.awaited -= 1
        if follow.awaited > 0:
            return None
        self._union.remove(thread_id, follow.paused_time(now))
        del self._follows[thread_id]
        follow.clock.ignore(self)
        self._controller.leave(thread_id)
        self.settle(now)
        return follow

    def leave(self, waiter: Waiter) -> None:
        """Stops following all threads."""
        for thread_id, follow in self._follows.items():
            follow.clock.leave(waiter)
            follow.clock.ignore(self)
            self._controller.leave(thread_id)

    def _enter(self, thread_id: str, now: Nanos) -> Follow:
        follow = self._follows[thread_id] = Follow(self._controller.enter(thread_id, now), now)
        self._union.add(thread_id, follow.paused_time(now))
        return follow

    def _paused_times(self, now: Nanos) -> dict[str, Nanos]:
        return {thread_id: follow.paused_time(now) for thread_id, follow in self._follows.items()}
