"""The threads whose pauses stop one stopwatch: its own, and those that it awaits.

1. A thread that is awaited several times is followed once, until the last of them ends.
2. The union of their pauses is settled at every change while all of them are heard, and not within a gap: see
   `paused_union`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .paused_union import PausedUnion

if TYPE_CHECKING:
    from .._io.durations import Nanos
    from .controller import Controller
    from .paused_time import Joined
    from .thread_clock import ThreadClock, Waiter


class Follow:
    """One thread, since a stopwatch joined it at `now`."""

    __slots__ = ("_assumed", "_joined", "_settled", "_shift", "awaited", "clock", "joined_at")

    def __init__(self, clock: ThreadClock, now: Nanos) -> None:
        self.clock = clock
        self.joined_at = now
        self.awaited = 1
        self._assumed, joined = clock.join(now)
        self._joined: Joined | None = joined
        # From the thread's paused time to the one since the join.
        self._shift = -self._assumed
        self._settled: Nanos = 0

    def paused_time(self, now: Nanos) -> Nanos:
        """How long the thread has been paused since the join.

        At which paused time it joined was only assumed; the next state says it. The difference may be from before the join,
        so it counts no more than the time since. What was settled meanwhile is never charged again: a pause of the
        stopwatch's own may have been in it.
        """
        if self._joined is not None and self._joined.place is not None:
            at, paused_time = self._joined.place
            growth = min(max(0, paused_time - self._assumed), max(0, at - self.joined_at))
            self._shift = max(growth, self._settled) - paused_time
            self._joined = None
        return self.clock.paused_time(now) + self._shift

    def settle(self, now: Nanos) -> None:
        """The stopwatch has used the paused time of `now`."""
        self._settled = self.paused_time(now)


class Follows:
    """Those of one stopwatch, which has joined `thread_id` at `now`. Each is entered into the controller once."""

    def __init__(self, controller: Controller, thread_id: str, now: Nanos) -> None:
        self._controller = controller
        self._union = PausedUnion(now)
        self._follows: dict[str, Follow] = {}
        self._own = self._enter(thread_id, now)

    @property
    def all(self) -> list[Follow]:
        """Its own, and then those that it awaits."""
        return list(self._follows.values())

    @property
    def is_linked(self) -> bool:
        """Whether the state of all of them is known and their watch is heard."""
        return all(follow.clock.is_linked for follow in self._follows.values())

    def is_paused(self, now: Nanos) -> bool:
        return any(follow.clock.is_paused(now) for follow in self._follows.values())

    def paused_time(self, now: Nanos) -> Nanos:
        """How long any of them has been paused."""
        return self._union.total(now, self._paused_times(now))

    def used(self, now: Nanos) -> None:
        """The stopwatch has used the paused time of `now`."""
        for follow in self._follows.values():
            follow.settle(now)

    def settle(self, now: Nanos) -> None:
        """One of them changes."""
        if self.is_linked:
            self._union.settle(now, self._paused_times(now))

    def add(self, thread_id: str, now: Nanos) -> None:
        """Awaits one more; again, or its own, it counts once."""
        if (follow := self._follows.get(thread_id)) is not None:
            follow.awaited += 1
            return
        self.settle(now)
        self._own.clock.observe(self)
        self._enter(thread_id, now).clock.observe(self)

    def remove(self, thread_id: str, now: Nanos) -> Follow | None:
        """Awaits it once less. Returns it when that was the last time."""
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
        """Follows none any more."""
        for thread_id, follow in self._follows.items():
            follow.clock.leave(waiter)
            follow.clock.ignore(self)
            self._controller.leave(thread_id)

    def _enter(self, thread_id: str, now: Nanos) -> Follow:
        follow = self._follows[thread_id] = Follow(self._controller.enter(thread_id), now)
        self._union.add(thread_id, follow.paused_time(now))
        return follow

    def _paused_times(self, now: Nanos) -> dict[str, Nanos]:
        return {thread_id: follow.paused_time(now) for thread_id, follow in self._follows.items()}
