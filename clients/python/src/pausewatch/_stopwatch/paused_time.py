"""How long one thread has been paused since this process began to follow it, as far as it knows.

The server's `paused_total` is exact at each state; between states the local clock carries on. So

```text
paused_time = paused_total - what it was at the beginning     (+ the local time since the state, while paused)
```

and a pause that began or ended unseen is in the difference of two totals. Pure: no clock is read.

1. Nothing before the beginning is credited, and never more than the time since then. The first state cannot say which part
   of its total was before; what may have been after the beginning is credited (the gap until the first state is
   milliseconds, unless the link was down).
2. Cut off, a paused thread counts as paused for `grace`, then as running: the leases that would end its pause cannot be
   seen. A link that died in silence was lost with its last message; but a pause with which a stopwatch has joined since counts
   until then, or it would be charged for time before. The next state corrects what was assumed, both ways.
3. Another epoch, or a total or a revision that fell, means that the server lost its state (or forgot an idle thread). The new
   total has nothing in common with the old one: the paused time so far stays, and grows by the new total, by the time since the
   last state at most. A server without epochs sends 0, which is compared by total and revision.
4. Local time does not run while the machine sleeps, the server's may. Of a pause that spans a sleep the sleep is left out,
   so that it cannot pay for time that was charged. A state that was sent before the sleep and came after it does not have it
   in its total yet, so that nothing is left out there, but of the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._io.durations import MILLISECOND, Nanos

_SHORTEST_SLEEP: Nanos = 100 * MILLISECOND
"""A sleep of the machine shorter than this is noise between two clocks."""
_LONGEST_WAY: Nanos = 15_000 * MILLISECOND
"""A state that is on its way for longer has had its connection given up."""


@dataclass(frozen=True, slots=True)
class Version:
    """The revision of a state, and the epoch in which it counts."""

    epoch: int
    revision: int

    def is_comparable_to(self, other: Version) -> bool:
        """Whether the revisions and totals can be compared. Epoch 0: the server has none."""
        return self.epoch == other.epoch or 0 in (self.epoch, other.epoch)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a state says, as far as it matters here."""

    version: Version
    paused: bool
    total: Nanos


@dataclass(frozen=True, slots=True)
class Moment:
    """A reading of this process's clock, and how long the machine has slept since it started."""

    at: Nanos
    slept: Nanos


class Joined:
    """Where a stopwatch that joined gets its place: the moment of the first state after it, and what was paused_time then."""

    __slots__ = ("place",)

    def __init__(self) -> None:
        self.place: tuple[Nanos, Nanos] | None = None


@dataclass(frozen=True, slots=True)
class _Last:
    seen: Seen
    moment: Moment
    paused_time: Nanos
    unsettled: Nanos
    """What the machine slept before it came and perhaps after it was sent: then it is part of the next total."""


class PausedTimeTracker:
    """Tracks the paused time of one thread."""

    __slots__ = (
        "_began",
        "_closed_at",
        "_disconnected_at",
        "_grace",
        "_joined",
        "_joined_at",
        "_joined_before_disconnect",
        "_last",
    )

    def __init__(self, now: Nanos, grace: Nanos) -> None:
        self._began = now
        self._grace = grace
        self._last: _Last | None = None
        # When the watch was disconnected.
        self._disconnected_at: Nanos | None = now
        # When a stopwatch joined last, and the last join before the disconnect was noticed.
        self._joined_at = self._joined_before_disconnect = now
        self._joined: Joined | None = None
        self._closed_at: Nanos | None = None

    @property
    def valid_until(self) -> Nanos | None:
        """When a pause that cannot be confirmed stops counting. None: the link is up."""
        if self._disconnected_at is None:
            return None
        until = max(self._disconnected_at + self._grace, self._joined_before_disconnect)
        return until if self._closed_at is None else min(until, self._closed_at)

    def paused_time(self, now: Nanos) -> Nanos:
        """How long the thread has been paused since the beginning."""
        last = self._last
        if last is None:
            return 0
        if not last.seen.paused:
            return last.paused_time
        end = now if self.valid_until is None else min(now, self.valid_until)
        return last.paused_time + max(0, end - last.moment.at)

    def is_paused(self, now: Nanos) -> bool:
        """Whether the thread counts as paused."""
        return self._last is not None and self._last.seen.paused and (self.valid_until is None or now < self.valid_until)

    def join(self, now: Nanos) -> tuple[Nanos, Joined]:
        """The paused time at which a stopwatch joins, as far as is known, and where the next state says how much it was then.

        Even when the link seems to be up: it may be dead without anyone noticing.
        """
        self._joined_at = now
        if self._joined is None:
            self._joined = Joined()
        return self.paused_time(now), self._joined

    def unconfirmed_pause(self, joined: Nanos) -> Nanos:
        """How much of the grace the open pause has used, for a stopwatch that joined then: what cannot be confirmed."""
        if self._disconnected_at is None or self._last is None or not self._last.seen.paused:
            return 0
        return max(0, self._disconnected_at + self._grace - max(self._disconnected_at, joined))

    def disconnect(self, now: Nanos, since: Nanos) -> bool:
        """The watch has not been heard any more since then. Says whether waiters must look again."""
        was_paused = self.is_paused(now)
        if self._disconnected_at is None:
            self._disconnected_at = since if self._last is None else max(since, self._last.moment.at)
            self._joined_before_disconnect = self._joined_at
        return was_paused

    def close(self, now: Nanos) -> None:
        """Nothing will be heard any more: from now on the thread counts as running."""
        self.disconnect(now, now)
        self._closed_at = now

    def apply(self, now: Moment, seen: Seen) -> bool:
        """Takes a state. Says whether waiters must look again: after a resume, and when an assumption is corrected."""
        assumed, was_paused = self._disconnected_at, self.is_paused(now.at)
        paused_time, unsettled = self._paused_time_after(now, seen)
        paused_time = min(paused_time, max(0, now.at - self._began))
        self._disconnected_at = None
        self._settle_joined(now.at, paused_time)
        self._last = _Last(seen, now, paused_time, unsettled if seen.paused else 0)
        return assumed is not None or (was_paused and not seen.paused)

    def _settle_joined(self, now: Nanos, paused_time: Nanos) -> None:
        """Gives those who joined their place."""
        if self._joined is not None:
            self._joined.place = (now, paused_time)
            self._joined = None

    def _paused_time_after(self, now: Moment, seen: Seen) -> tuple[Nanos, Nanos]:
        """What is paused_time with this state, and what the machine slept that may be in the next total."""
        last = self._last
        if last is None:
            return seen.total, 0
        if _is_lost(last.seen, seen):
            # A pause was seen until the disconnect; the new total can be in addition to it.
            seen_until = last.moment.at
            if last.seen.paused:
                seen_until = now.at if self._disconnected_at is None else self._disconnected_at
            since = max(0, now.at - seen_until)
            return max(self.paused_time(now.at), self.paused_time(seen_until) + min(seen.total, since)), 0
        awake, unsettled = _awake(last, now, seen.total - last.seen.total)
        return last.paused_time + awake, unsettled


def _is_lost(last: Seen, seen: Seen) -> bool:
    """Whether the server lost `last` before it sent `seen`."""
    is_comparable = seen.version.is_comparable_to(last.version)
    return not is_comparable or seen.version.revision < last.version.revision or seen.total < last.total


def _awake(last: _Last, now: Moment, growth: Nanos) -> tuple[Nanos, Nanos]:
    """The part of `growth`, paused between `last` and `now`, in which this machine was awake; and what it slept that may be in
    the next total instead.

    Paused when last heard of, the thread was mostly paused all the while: then the growth is as long as the time awake and
    those sleeps that are in it. The combination that comes closest is chosen.
    """
    awake = max(0, now.at - last.moment.at)
    new, old = now.slept - last.moment.slept, last.unsettled
    if new < _SHORTEST_SLEEP:
        new = 0
    if new == old == 0:
        return growth, 0
    if not last.seen.paused:
        return min(growth, awake), new
    choices = [(0, new or old), (new, 0), (old, new), (old + new, 0)]
    possible = (choice for choice in choices if choice[0] <= growth)
    within, unsettled = min(possible, key=lambda choice: abs(growth - awake - choice[0]))
    # What was known last may have been on its way for some time, which is in the growth too.
    return growth - within if within else min(growth, awake + _LONGEST_WAY), unsettled
