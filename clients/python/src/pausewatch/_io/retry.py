"""When to try again. Pure: no clock is read and nothing sleeps here.

1. The deadline covers everything: connecting, every attempt, every pause between them.
2. Only UNAVAILABLE is tried again: the server refused nothing, and the request id makes the repetition count once. So are
   too many calls a second, after the time that the server says: nothing changed.
3. The first attempt fails at once when nobody listens; the next ones wait for a connection. (A channel of threads makes one
   only while a call waits for it.)
4. With several addresses, an attempt that finds nobody, or gets no answer in time, goes on at the next one at once. The pause
   comes after a full lap, which is one attempt. STORE_UNAVAILABLE and limits stay: another replica has the same store.
5. A pause is random, so that the clients of a restarted server do not come back as one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from grpc import StatusCode

from ..errors import CallError, DeadlineExceeded, LimitExceeded, Status, StoreUnavailable, Unavailable
from .durations import MILLISECOND, SECOND, Nanos, in_words, to_nanos
from .route import NO_ANSWER, nowhere_else

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .route import Route

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

    __slots__ = ("_deadline", "_give_up", "_last", "_limit", "_moves", "_pauses", "_retries", "_route", "_unanswered")

    def __init__(self, deadline: Nanos, now: Nanos, retries: int | None = None, route: Route[Any] | None = None) -> None:
        self._deadline = deadline
        self._give_up = now + deadline
        self._retries = retries
        self._pauses: Iterator[Nanos] | None = None
        self._last: CallError | None = None
        self._route = route or nowhere_else()
        self._moves = 0
        self._unanswered = 0
        # When the attempt under way ends for want of an answer; half of a short deadline, so that another has the other half.
        self._limit: Nanos | None = None

    def begin(self, now: Nanos) -> tuple[Any, Nanos]:
        """The stub of an attempt that begins now, and how long it may take."""
        self._moves, stub = self._route.now
        left = max(0, self._give_up - now)
        limit = min(NO_ANSWER, self._deadline // 2)
        self._limit = limit if self._route.several and limit < left else None
        return stub, left if self._limit is None else self._limit

    @property
    def wait_for_ready(self) -> bool:
        """Whether the next attempt is to wait for a connection."""
        return self._last is not None and not self._route.several

    def pause(self, error: CallError, now: Nanos) -> Nanos:
        """How long to wait after an attempt that ended with `error`; raises it when there is no other attempt."""
        if isinstance(error, DeadlineExceeded) and self._limit is not None:
            error = Unavailable.of(f"no answer within {in_words(self._limit)}")
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
        if isinstance(error, Unavailable) and self._route.move_on(self._moves):
            self._unanswered += 1
            if self._unanswered % self._route.addresses and now < self._give_up:
                self._last = error
                return 0
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
