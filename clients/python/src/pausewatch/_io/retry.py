"""When a call is retried, and after which delay. Pure: no clock is read and nothing sleeps here.

1. The deadline covers everything: connecting, every attempt, and every retry delay.
2. UNAVAILABLE is retried: the server refused nothing, and the request id makes the repetition count once. Exceeding the limit
   of calls per second is retried too, after the delay that the server returns: nothing changed. Other errors are not retried.
3. The first attempt fails at once if the connection is refused; later attempts wait for a connection. (A channel of a
   synchronous client connects only while a call waits for a connection.)
4. With several addresses, an attempt without a connection, or without an answer in time, is repeated at the next address at
   once. The retry delay follows when all addresses have failed, which counts as one attempt. STORE_UNAVAILABLE and limits are
   retried at the same address: another replica has the same store.
5. Retry delays are random, so that the clients of a restarted server do not all reconnect at the same time.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from grpc import StatusCode

from ..errors import CallError, DeadlineExceeded, LimitExceeded, Status, StoreUnavailable, Unavailable
from .durations import MILLISECOND, SECOND, Nanos, in_words, to_nanos
from .route import ANSWER_TIMEOUT, single_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .route import Route

_FIRST_RETRY_DELAY = 25 * MILLISECOND
_MAX_RETRY_DELAY = SECOND


def backoff(first: Nanos, longest: Nanos) -> Iterator[Nanos]:
    """Retry delays without end, which double from `first` to `longest`; each plus up to 100 % at random."""
    delay = first
    while True:
        yield delay + random.randint(0, delay)
        delay = min(2 * delay, longest)


def rate_limit_delay(error: CallError) -> Nanos | None:
    """The delay before a retry, if the limit of calls per second was exceeded; None for any other error.

    Other limits are not retried: they stay reached until something is closed.
    """
    if not isinstance(error, LimitExceeded) or not error.is_transient:
        return None
    return SECOND if error.retry_after is None else to_nanos(error.retry_after)


class Attempts:
    """The attempts of one call."""

    __slots__ = ("_deadline", "_give_up", "_last", "_limit", "_retries", "_retry_delays", "_route", "_unanswered", "moves")

    def __init__(self, deadline: Nanos, now: Nanos, retries: int | None = None, route: Route[Any] | None = None) -> None:
        self._deadline = deadline
        self._give_up = now + deadline
        self._retries = retries
        self._retry_delays: Iterator[Nanos] | None = None
        self._last: CallError | None = None
        self._route = route or single_address()
        self.moves = 0
        """How often the client had moved when the attempt under way began."""
        self._unanswered = 0
        # The timeout of the attempt under way: at most half of the deadline, so that time is left for another attempt.
        self._limit: Nanos | None = None

    def begin(self, now: Nanos) -> tuple[Any, Nanos]:
        """The stub of an attempt that begins now, and its timeout."""
        self.moves, stub = self._route.now
        left = max(0, self._give_up - now)
        limit = min(ANSWER_TIMEOUT, self._deadline // 2)
        self._limit = limit if self._route.has_several and limit < left else None
        return stub, left if self._limit is None else self._limit

    @property
    def wait_for_ready(self) -> bool:
        """Whether the next attempt is to wait for a connection."""
        return self._last is not None and not self._route.has_several

    def retry_delay(self, error: CallError, now: Nanos) -> Nanos:
        """The delay after an attempt that ended with `error`; raises the error of the call if there is no other attempt."""
        if isinstance(error, DeadlineExceeded) and self._limit is not None:
            error = Unavailable.of(f"no answer within {in_words(self._limit)}")
        if isinstance(error, DeadlineExceeded):
            text = f"no answer within {in_words(self._deadline)}"
            # The attempt waited for a connection. Unavailable says more: there was no connection.
            if isinstance(self._last, Unavailable):
                raise Unavailable.of(f"{self._last}; {text}") from self._last
            because = "" if self._last is None else f"; before: {self._last}"
            raise DeadlineExceeded(Status(StatusCode.DEADLINE_EXCEEDED, text + because)) from self._last
        wait = rate_limit_delay(error)
        if wait is None and not isinstance(error, Unavailable | StoreUnavailable):
            raise error
        if isinstance(error, Unavailable) and self._route.move_on(self.moves):
            self._unanswered += 1
            if self._unanswered % self._route.addresses and now < self._give_up:
                self._last = error
                return 0
        if self._retries is not None:
            if self._retries <= 0:
                raise error
            self._retries -= 1
        self._last = error
        self._retry_delays = self._retry_delays or backoff(_FIRST_RETRY_DELAY, _MAX_RETRY_DELAY)
        delay = next(self._retry_delays) + (wait or 0)
        # Waiting past the deadline would only hide the reason behind DEADLINE_EXCEEDED.
        if now + delay >= self._give_up:
            raise error
        return delay
