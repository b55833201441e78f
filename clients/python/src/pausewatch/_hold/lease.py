"""The state of the lease of a hold, as far as it is known. Pure: no clock is read.

The server starts a lease before its answer arrives, so the lease is over at the latest one ttl after the answer.
Only the server knows whether it has ended. Until the server reports the end, a lease that should be over is overdue, and may
still be renewed: a server that was unreachable gives every lease one full ttl after its restart.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from .._io.durations import MILLISECOND, SECOND, Nanos
from .._io.retry import backoff, rate_limit_delay
from ..errors import CallError, ElicitationExpired, ElicitationReleased, ElicitationUnknown

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_RETRY_DELAY = 2 * SECOND


class Lease(Enum):
    """The state of the lease of a hold, as far as it is known."""

    HELD = "held"
    """The elicitation is open."""
    OVERDUE = "overdue"
    """No renewal succeeded for a whole ttl: the lease has ended, or the server is down. Renewals are still tried; if one
    succeeds, the lease is held again."""
    EXPIRED = "expired"
    """The lease ended: the elicitation is closed, and its thread runs unless another one is open."""
    RELEASED = "released"
    """The elicitation was closed by a decrement, of this hold or of another caller."""
    UNKNOWN = "unknown"
    """The server does not know the elicitation: it lost its state, or forgot the elicitation after some time."""
    NOT_OPEN = "not_open"
    """A best-effort hold that could not be opened: nothing was paused."""


ENDED_BY: dict[type[CallError], Lease] = {
    ElicitationExpired: Lease.EXPIRED,
    ElicitationReleased: Lease.RELEASED,
    ElicitationUnknown: Lease.UNKNOWN,
}
"""The end of a lease that an error of a call reports."""


class LeaseRecord:
    """The lease of one hold: its state, and when to renew it."""

    __slots__ = ("_end", "_longest", "_retry_delays", "_ttl", "over", "renew_at")

    def __init__(self, ttl: Nanos, sent: Nanos, answered: Nanos) -> None:
        self._ttl = ttl
        self._end: Lease | None = None
        self.renewed(sent, answered)

    def renewed(self, sent: Nanos, answered: Nanos) -> None:
        """Notes that an increment or a renewal succeeded."""
        self.over = answered + self._ttl
        self.renew_at = sent + self._ttl // 3
        # A retry delay may be doubled at random. After an outage, the server gives the lease its full ttl again, within which it
        # must be renewed.
        self._longest = min(self._ttl // 6, _MAX_RETRY_DELAY)
        self._retry_delays: Iterator[Nanos] = backoff(min(self._ttl // 30, 100 * MILLISECOND), self._longest)

    def failed(self, error: CallError, now: Nanos) -> None:
        """Notes that a renewal was refused, or failed."""
        if (end := ENDED_BY.get(type(error))) is not None:
            self.end(end)
        else:
            # A long delay of the server is cut to the longest one of a failure: the lease must not end because of it.
            wait = next(self._retry_delays) + (rate_limit_delay(error) or 0)
            self.renew_at = now + min(wait, 2 * self._longest)

    def give_up(self, now: Nanos) -> None:
        """Notes that the lease is not renewed any more."""
        self.over = min(self.over, now)

    def end(self, lease: Lease) -> None:
        """Notes that the elicitation is closed. The first end is kept."""
        self._end = self._end or lease

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    def at(self, now: Nanos) -> Lease:
        """The state of the lease at that moment."""
        return self._end or (Lease.HELD if now < self.over else Lease.OVERDUE)
