"""How long one thread has been paused since this process began to follow it, as far as it knows.

The server's `paused_total` is exact at each state; between states the local clock is used. So

```text
paused_time = paused_total - paused_total at the beginning     (+ the local time since the state, while paused)
```

and a pause that began or ended unobserved is in the difference of two totals. Pure: no clock is read.

1. No time before the beginning is credited, and never more than the time since then. The first state does not say which part
   of its total was before the beginning; all that may have been after it is credited (the first state arrives within
   milliseconds, unless the link was down).
2. After a disconnect, a paused thread counts as paused for `grace`, then as running: leases that end its pause cannot be
   observed. A link that died in silence counts as lost since its last message. But if a stopwatch has joined a paused thread
   since then, the pause counts until that join; otherwise the stopwatch would be charged for time before it joined. The next
   state corrects the assumption, in both directions.
3. Another epoch, or a total or a revision that decreased, means that the server lost its state (or forgot an idle thread). The
   new total is not comparable with the old one: the paused time so far is kept, and grows by the new total, but at most by the
   time since the last state. A server without epochs sends epoch 0; then total and revision are compared. A lower total after
   an open pause, in the same epoch, is an exception: it is the total at an earlier moment, for example by another replica. Then
   the known total is used.
4. The local clock stands still while the machine sleeps; the server's clock may not. If a pause spans a sleep, the sleep is
   not credited, so that it cannot make up for time that was charged. A state that was sent before the sleep and arrives after
   it does not have the sleep in its total; then the sleep is subtracted from the next total.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .._io.durations import MILLISECOND, Nanos

_MIN_SLEEP: Nanos = 100 * MILLISECOND
"""A shorter sleep of the machine is treated as noise between two clocks."""
_MAX_TRANSIT_TIME: Nanos = 15_000 * MILLISECOND
"""The longest time that a state may be in transit: after this time, its connection has been given up."""


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
    """The parts of a state that are used here."""

    version: Version
    paused: bool
    total: Nanos
    paused_for: Nanos = 0
    """How long the open pause has lasted."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A reading of this process's clock, and how long the machine has slept since it started."""

    at: Nanos
    slept: Nanos


class JoinBaseline:
    """Receives the first state after a stopwatch has joined: the moment, the thread's paused time then, and its open pause."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: tuple[Nanos, Nanos, Nanos] | None = None


@dataclass(frozen=True, slots=True)
class _Last:
    seen: Seen
    moment: Moment
    paused_time: Nanos
    unsettled: Nanos
    """The sleep before this state arrived that may have been after it was sent: then it is part of the next total."""


class PausedTimeTracker:
    """Tracks the paused time of one thread."""

    __slots__ = (
        "_baseline",
        "_began",
        "_closed_at",
        "_disconnected_at",
        "_grace",
        "_joined_at",
        "_joined_before_disconnect",
        "_last",
    )

    def __init__(self, now: Nanos, grace: Nanos) -> None:
        self._began = now
        self._grace = grace
        self._last: _Last | None = None
        # When the watch was disconnected; None: it is connected.
        self._disconnected_at: Nanos | None = now
        # The last join of a stopwatch, and the last join before the disconnect was noticed.
        self._joined_at = self._joined_before_disconnect = now
        self._baseline: JoinBaseline | None = None
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

    def join(self, now: Nanos) -> tuple[Nanos, JoinBaseline]:
        """The paused time at which a stopwatch joins, as far as it is known, and the baseline that the next state sets.

        The next state is needed even if the link seems to be up: the link may be dead, which is not always noticed at once.
        """
        self._joined_at = now
        if self._baseline is None:
            self._baseline = JoinBaseline()
        return self.paused_time(now), self._baseline

    def unconfirmed_pause(self, joined: Nanos) -> Nanos:
        """How much of the grace the open, unconfirmed pause uses, for a stopwatch that joined at `joined`."""
        if self._disconnected_at is None or self._last is None or not self._last.seen.paused:
            return 0
        return max(0, self._disconnected_at + self._grace - max(self._disconnected_at, joined))

    def disconnect(self, now: Nanos, since: Nanos) -> bool:
        """Notes that the watch has been disconnected since `since`. Returns whether waiters must check again."""
        was_paused = self.is_paused(now)
        if self._disconnected_at is None:
            self._disconnected_at = since if self._last is None else max(since, self._last.moment.at)
            self._joined_before_disconnect = self._joined_at
        return was_paused

    def close(self, now: Nanos) -> None:
        """Notes that no more states will arrive: from now on the thread counts as running."""
        self.disconnect(now, now)
        self._closed_at = now

    def apply(self, now: Moment, seen: Seen) -> bool:
        """Applies a state. Returns whether waiters must check again: after a resume, and when an assumption is corrected."""
        seen = seen if self._last is None else _after(self._last.seen, seen)
        disconnected_at, was_paused = self._disconnected_at, self.is_paused(now.at)
        paused_time, unsettled = self._paused_time_after(now, seen)
        paused_time = min(paused_time, max(0, now.at - self._began))
        self._disconnected_at = None
        self._set_baseline(now.at, paused_time, seen.paused_for)
        self._last = _Last(seen, now, paused_time, unsettled if seen.paused else 0)
        return disconnected_at is not None or (was_paused and not seen.paused)

    def _set_baseline(self, now: Nanos, paused_time: Nanos, paused_for: Nanos) -> None:
        """Sets the baseline of the stopwatches that joined since the last state."""
        if self._baseline is not None:
            self._baseline.value = (now, paused_time, paused_for)
            self._baseline = None

    def _paused_time_after(self, now: Moment, seen: Seen) -> tuple[Nanos, Nanos]:
        """The paused time with this state, and the sleep of the machine that may be in the next total."""
        last = self._last
        if last is None:
            return seen.total, 0
        if _is_lost(last.seen, seen):
            # A pause was observed until the disconnect; the new total can be in addition to it.
            seen_until = last.moment.at
            if last.seen.paused:
                seen_until = now.at if self._disconnected_at is None else self._disconnected_at
            since = max(0, now.at - seen_until)
            return max(self.paused_time(now.at), self.paused_time(seen_until) + min(seen.total, since)), 0
        awake, unsettled = _awake(last, now, seen.total - last.seen.total)
        return last.paused_time + awake, unsettled


def _after(last: Seen, seen: Seen) -> Seen:
    """`seen` after `last`: no open pause gets shorter."""
    is_open = last.paused and seen.version.epoch == last.version.epoch != 0
    return replace(seen, total=max(seen.total, last.total)) if is_open else seen


def _is_lost(last: Seen, seen: Seen) -> bool:
    """Whether the server lost `last` before it sent `seen`."""
    is_comparable = seen.version.is_comparable_to(last.version)
    return not is_comparable or seen.version.revision < last.version.revision or seen.total < last.total


def _awake(last: _Last, now: Moment, growth: Nanos) -> tuple[Nanos, Nanos]:
    """The part of `growth` (the paused time between `last` and `now`) in which this machine was awake, and the sleep that may be
    in the next total instead.

    If the thread was paused in its last state, it was probably paused all the time: then the growth is the time awake plus the
    sleeps that are in the total. The closest combination is chosen.
    """
    awake = max(0, now.at - last.moment.at)
    new, old = now.slept - last.moment.slept, last.unsettled
    if new < _MIN_SLEEP:
        new = 0
    if new == old == 0:
        return growth, 0
    if not last.seen.paused:
        return min(growth, awake), new
    choices = [(0, new or old), (new, 0), (old, new), (old + new, 0)]
    possible = (choice for choice in choices if choice[0] <= growth)
    within, unsettled = min(possible, key=lambda choice: abs(growth - awake - choice[0]))
    # The last state may have been in transit for some time, which is in the growth too.
    return growth - within if within else min(growth, awake + _MAX_TRANSIT_TIME), unsettled
