"""What is known of the questions to the coordinator about one thread. Pure: nothing is sent here.

1. At most one call is in flight at a time. An answer counts for a stopwatch only if the question began after its
   time ran out: an earlier one may have missed an increment that was acknowledged since (G1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .._io.durations import Nanos


@dataclass(frozen=True, slots=True)
class Answered:
    """It was answered."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It could not be asked."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """It is not over."""

    began: Nanos
    failed_before: bool
    """Another one, that would have counted too, has failed."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """None has begun."""


Outcome: TypeAlias = Answered | Failed | UnderWay | NotYet


class Asks:
    """The questions about one thread."""

    __slots__ = ("_again", "_last", "_under_way")

    def __init__(self) -> None:
        self._under_way: Nanos | None = None
        # The one under way began too early for somebody.
        self._again = False
        # When the last one that is over began, and whether it was answered.
        self._last: tuple[Nanos, bool] | None = None

    def since(self, moment: Nanos) -> Outcome:
        """What became of a question that began at that moment or later."""
        last = self._last if self._last is not None and self._last[0] >= moment else None
        if last is not None and last[1]:
            return Answered()
        if self._under_way is not None and self._under_way >= moment:
            return UnderWay(self._under_way, failed_before=last is not None)
        return NotYet() if last is None else Failed()

    def wanted(self, moment: Nanos, now: Nanos) -> bool:
        """Somebody wants one that begins at `moment` or later. Says whether to ask now."""
        if self._under_way is not None:
            self._again = self._again or self._under_way < moment
            return False
        self._under_way = now
        return True

    def over(self, *, answered: bool, now: Nanos) -> bool:
        """The one under way is over. Says whether to ask again now."""
        assert self._under_way is not None
        self._last = (self._under_way, answered)
        again, self._again = self._again, False
        self._under_way = now if again else None
        return again
