"""What is known of the lease of a hold. Pure: no clock is read.

The server counts a lease from some moment before its answer comes, so it is over no later than a ttl after the answer.
Only the server knows that it ended; until it says so, one that should be over is overdue, and may yet come back: a server
that was away gives every lease one full ttl again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from .._io.durations import MILLISECOND, SECOND, Nanos
from .._io.retry import backoff, call_less_often
from ..errors import CallError, ElicitationExpired, ElicitationReleased, ElicitationUnknown

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_PAUSE = 2 * SECOND


class Lease(Enum):
    """What is known of the lease of a hold."""

    HELD = "held"
    """The elicitation is open."""
    OVERDUE = "overdue"
    """No renewal got through for a whole ttl: the lease is over, or its server is down. Renewals are still tried; if one
    succeeds, the lease is held again."""
    EXPIRED = "expired"
    """The lease ended: the elicitation is closed, and its thread runs unless another one is open."""
    RELEASED = "released"
    """The elicitation was closed by a decrement, of this hold or another's."""
    UNKNOWN = "unknown"
    """The server does not know the elicitation: it lost its state, or has long forgotten it."""
    NOT_OPEN = "not_open"
    """A best-effort hold that could not be opened: nothing was paused."""


class LeaseRecord:
    """The lease of one hold: when to renew, and what it is."""

    __slots__ = ("_end", "_pauses", "_ttl", "over", "renew_at")

    def __init__(self, ttl: Nanos, sent: Nanos, answered: Nanos) -> None:
        self._ttl = ttl
        self._end: Lease | None = None
        self.renewed(sent, answered)

    def renewed(self, sent: Nanos, answered: Nanos) -> None:
        """An increment or a renewal got through."""
        self.over = answered + self._ttl
        self.renew_at = sent + self._ttl // 3
        # A pause may become twice as long at random. After an outage the lease must be renewed before the server, which gives it
        # its full ttl again, ends it.
        longest = min(self._ttl // 6, _LONGEST_PAUSE)
        self._pauses: Iterator[Nanos] = backoff(min(self._ttl // 30, 100 * MILLISECOND), longest)

    def failed(self, error: CallError, now: Nanos) -> None:
        """A renewal was refused, or did not get through."""
        ends: dict[type[CallError], Lease] = {
            ElicitationExpired: Lease.EXPIRED,
            ElicitationReleased: Lease.RELEASED,
            ElicitationUnknown: Lease.UNKNOWN,
        }
        if (end := ends.get(type(error))) is not None:
            self.end(end)
        else:
            # No longer than renewals are apart anyway: the lease must not end of a wait.
            wait = min(call_less_often(error) or 0, self._ttl // 3)
            self.renew_at = now + next(self._pauses) + wait

    def give_up(self, now: Nanos) -> None:
        """It is renewed no more."""
        self.over = min(self.over, now)

    def end(self, lease: Lease) -> None:
        """The elicitation is closed. The first end stays."""
        self._end = self._end or lease

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    def at(self, now: Nanos) -> Lease:
        """What the lease is at that moment."""
        return self._end or (Lease.HELD if now < self.over else Lease.OVERDUE)
