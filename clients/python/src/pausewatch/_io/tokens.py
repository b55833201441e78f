"""Tokens that are replaced: their source, and when it is called.

A source is called for every attempt of a call and for every stream. It is called again while a stream is open: after two
thirds of the token's remaining lifetime, if it is a JSON web token, and at least once a minute.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING

from grpc import StatusCode

from ..errors import DeadlineExceeded, Status, Unauthenticated
from .durations import SECOND, Nanos, in_words

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_RENEWAL_DELAY: Nanos = SECOND
"""The shortest time until the source is called again; also after it has failed."""
_MAX_RENEWAL_DELAY: Nanos = 60 * SECOND


def current_token(source: Callable[[], str]) -> str:
    """The current token of the source.

    Raises Unauthenticated: the source has failed, or returned no valid token; nothing may be sent.
    """
    try:
        token = source()
    except Exception as error:
        raise _missing(str(error)) from error
    if not is_token(token):
        raise _missing("the source gave one that is empty or has other characters than visible ASCII")
    return token


class Asking:
    """Calls a token source on a separate thread, because the source may block: each caller waits only until its own timeout.
    Only one call of the source is under way at a time; callers that ask meanwhile share its answer.
    """

    def __init__(self, source: Callable[[], str]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._answer: Future[str] | None = None
        # The questions for the thread, which starts with the first question. None ends the thread.
        self._questions: SimpleQueue[Future[str] | None] | None = None

    def ask(self) -> Future[str]:
        """The token as it is now, or Unauthenticated."""
        with self._lock:
            answer = self._answer
            if answer is None or answer.done():
                answer = self._answer = Future()
                if self._questions is None:
                    self._questions = SimpleQueue()
                    threading.Thread(target=self._run, args=(self._questions,), name="pausewatch-token", daemon=True).start()
                self._questions.put(answer)
            return answer

    def close(self) -> None:
        """Ends the thread after the source has answered. Takes no lock, because a destructor calls it."""
        if (questions := self._questions) is not None:
            questions.put(None)

    def _run(self, questions: SimpleQueue[Future[str] | None]) -> None:
        while True:
            if (answer := questions.get()) is None:
                with self._lock:
                    if questions.empty():
                        self._questions = None
                        return
                questions.put(None)
                continue
            try:
                answer.set_result(current_token(self._source))
            except BaseException as error:
                answer.set_exception(error)
            # Otherwise the variable would keep the objects that wait for the answer alive until the next question.
            del answer


def _missing(why: str) -> Unauthenticated:
    return Unauthenticated(Status(StatusCode.UNAUTHENTICATED, f"no token: {why}"))


def late(timeout: Nanos) -> DeadlineExceeded:
    """The error of a call for which the source gave no token within its deadline."""
    return DeadlineExceeded(Status(StatusCode.DEADLINE_EXCEEDED, f"the token source gave no token within {in_words(timeout)}"))


def is_token(token: str) -> bool:
    """Whether the token can be sent: it is not empty, and visible ASCII."""
    return token != "" and all("\x21" <= character <= "\x7e" for character in token)


def renewal_delay(token: str, now: float) -> Nanos:
    """The delay until the source is called again; `now`: seconds since the epoch, by the wall clock."""
    end = _end(token)
    rest = _MAX_RENEWAL_DELAY if end is None else round((end - now) * SECOND * 2 / 3)
    return max(MIN_RENEWAL_DELAY, min(rest, _MAX_RENEWAL_DELAY))


def _end(token: str) -> float | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    end = claims.get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) else None
