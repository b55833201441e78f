"""When to try again. Pure: no clock is read and nothing sleeps here.

1. The deadline covers everything: connecting, every attempt, every pause between them.
2. Only UNAVAILABLE is tried again: the server refused nothing, and the request id makes the repetition count once. So are
   too many calls a second, after the time that the server says: nothing changed.
3. The first attempt fails at once when nobody listens; the next ones wait for a connection. (A channel of threads makes one
   only while a call waits for it.)
4. A pause is random, so that the clients of a restarted server do not come back as one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from grpc import StatusCode

from ..errors import CallError, DeadlineExceeded, LimitExceeded, Status, StoreUnavailable, Unavailable
from .durations import MILLISECOND, SECOND, Nanos, in_words, to_nanos

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST_PAUSE = 25 * MILLISECOND
_LONGEST_PAUSE = SECOND


def backoff(first: Nanos, most: Nanos) -> Iterator[Nanos]:
    """Pauses for ever: doubling from `first` to `most`, each with up to as much again at random."""
    pause = first
    while True:
        yield pause + random.randint(0, pause)
        pause = min(2 * pause, most)


def call_less_often(error: CallError) -> Nanos | None:
    """How long to wait, if it is only that there were too many calls in this second; None for any other error.

    Any other limit is met until somebody closes something.
    """
    if not isinstance(error, LimitExceeded) or not error.is_transient:
        return None
    return SECOND if error.retry_after is None else to_nanos(error.retry_after)


class Attempts:
    """The attempts of one call."""

    __slots__ = ("_deadline", "_give_up", "_last", "_pauses", "_retries")

    def __init__(self, deadline: Nanos, now: Nanos, retries: int | None = None) -> None:
        self._deadline = deadline
        self._give_up = now + deadline
        self._retries = retries
        self._pauses: Iterator[Nanos] | None = None
        self._last: CallError | None = None

    def left(self, now: Nanos) -> Nanos:
        """How long an attempt that begins now may take."""
        return max(0, self._give_up - now)

    @property
    def wait_for_ready(self) -> bool:
        """Whether the next attempt is to wait for a connection."""
        return self._last is not None

    def pause(self, error: CallError, now: Nanos) -> Nanos:
        """How long to wait after an attempt that ended with `error`; raises it when there is no other attempt."""
        if isinstance(error, DeadlineExceeded):
            text = f"no answer within {in_words(self._deadline)}"
            # It waited for a connection: that there was none is what the caller must know.
            if isinstance(self._last, Unavailable):
                raise Unavailable.of(f"{self._last}; {text}") from self._last
            because = "" if self._last is None else f"; before: {self._last}"
            raise DeadlineExceeded(Status(StatusCode.DEADLINE_EXCEEDED, text + because)) from self._last
        wait = call_less_often(error)
        if wait is None and not isinstance(error, Unavailable | StoreUnavailable):
            raise error
        if self._retries is not None:
            if self._retries <= 0:
                raise error
            self._retries -= 1
        self._last = error
        self._pauses = self._pauses or backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        pause = next(self._pauses) + (wait or 0)
        # To wait past the deadline would only hide the reason behind DEADLINE_EXCEEDED.
        if now + pause >= self._give_up:
            raise error
        return pause
