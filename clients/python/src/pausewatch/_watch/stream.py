"""The stream of a watch, opened again whenever it breaks.

1. A stream without a message for two heartbeats counts as dead, even if TCP reports no error; one that owes the answer to a
   question, much sooner. Its first message must come within the deadline of a call. Only time in which it is read counts: a
   slow reader does not break its own stream.
2. After every break comes a random pause, also when the stream had worked: the clients of a restarted server must not all
   come back at once.
3. After a break the stream gets a connection of its own: the old one may be dead, and gRPC would wait before it makes another.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from .._io.durations import MILLISECOND, SECOND, Nanos, in_words
from .._io.retry import backoff
from ..errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._io.runtime import Cancel, Runtime, Stream
    from ..errors import CallError
    from ..v1 import elicitation_service_pb2 as pb

HEARTBEAT: Nanos = 15 * SECOND
"""The time within which the server promises a heartbeat. A connection that ends after a longer silence was dead during it: its
end is what a ping without an answer, or this library, has made of the silence."""
SILENCE: Nanos = 2 * HEARTBEAT
"""The longest silence."""
ANSWER: Nanos = 250 * MILLISECOND
"""The longest silence while a question waits for its answer; after each break because of it, twice as long."""
_FIRST_ANSWER: Nanos = 2 * SECOND
"""The same on a stream without a message: it may have to connect."""
_HURRIED: Nanos = 100 * MILLISECOND
"""The longest pause after a break while a question waits; up to twice as long, at random."""


class Listener(Protocol):
    """Receives what the stream brings. Opened, it may be sent requests until it is broken."""

    def opened(self) -> None: ...
    def heard(self, message: pb.WatchResponse) -> None: ...
    def broken(self, error: CallError, silent_for: Nanos) -> None: ...


class WatchStream:
    """Runs from `open` until `close`."""

    def __init__(self, runtime: Runtime, first_message_within: Nanos, listener: Listener) -> None:
        self._runtime = runtime
        self._first_message_within = first_message_within
        self._listener = listener
        self._pauses = _pauses()
        self._patience = ANSWER
        self._was_broken = False
        self._held = False
        self._stream: Stream | None = None
        self._opened_at: Nanos = 0
        self._last_message: Nanos | None = None
        self._asked_since: Nanos | None = None
        # What comes next: a look for silence, or the next opening.
        self._timer: tuple[Nanos, Cancel] | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._stream is not None

    @property
    def is_running(self) -> bool:
        """Whether it was opened, and not closed since."""
        return self._stream is not None or self._timer is not None

    @property
    def token(self) -> str | None:
        """The token that the open stream began with, if there may be another one later."""
        return None if self._stream is None else self._stream.token

    def open(self) -> None:
        """Opens it now."""
        self._timer, self._last_message, self._opened_at = None, None, self._runtime.now()
        self._stream = self._runtime.stream(self._heard, self._ended, own_connection=self._was_broken)
        if self._held:
            self._stream.hold()
        self._look_in_time()
        self._listener.opened()

    def close(self) -> None:
        """Nothing is heard of it afterwards."""
        self._cancel_timer()
        self._was_broken = False
        if self._stream is not None:
            self._stream.cancel()
        self._stream = None

    def send(self, request: pb.WatchRequest) -> None:
        """Sends it on the open stream."""
        assert self._stream is not None
        self._stream.send(request)

    def hold(self) -> None:
        """Reads no further."""
        self._held = True
        if self._stream is not None:
            self._stream.hold()

    def go_on(self) -> None:
        """Reads again."""
        self._held = False
        if self._stream is not None:
            self._opened_at = self._runtime.now()
            if self._last_message is not None:
                self._last_message = self._opened_at
            self._stream.go_on()

    def answered(self) -> None:
        """A request was answered: the stream works."""
        self._pauses, self._patience = _pauses(), ANSWER

    def ask(self, since: Nanos | None) -> None:
        """The oldest question has waited since then; None: there is none."""
        self._asked_since = since
        if since is None:
            return
        if self.is_open:
            self._look_in_time()
        elif self._timer is not None and self._timer[0] > (soon := self._runtime.now() + 2 * _HURRIED):
            self._cancel_timer()
            self._timer = (soon, self._runtime.call_at(soon, self.open))

    def reopen(self, error: CallError, after: Nanos) -> None:
        """Breaks it, and opens it again after that time at the earliest."""
        assert self._stream is not None
        self._stream.cancel()
        self._ended(error, after)

    def _heard(self, message: pb.WatchResponse) -> None:
        self._last_message = self._runtime.now()
        self._listener.heard(message)

    @property
    def _silent_at(self) -> tuple[Nanos, Nanos]:
        """From when on it counts as dead unless a message comes, and after how long a silence that is."""
        if self._held:
            return self._runtime.now() + SILENCE, SILENCE
        if self._last_message is None:
            patience = self._first_message_within
            if self._asked_since is not None:
                patience = min(patience, max(self._patience, _FIRST_ANSWER))
            return self._opened_at + patience, patience
        silent_at = self._last_message + SILENCE
        if self._asked_since is not None:
            answer_at = max(self._last_message, self._asked_since, self._opened_at) + self._patience
            return (answer_at, self._patience) if answer_at < silent_at else (silent_at, SILENCE)
        return silent_at, SILENCE

    def _look_in_time(self) -> None:
        """Messages move the moment and leave the timer alone: there may be many."""
        silent_at, _ = self._silent_at
        if self._timer is None or silent_at < self._timer[0]:
            self._cancel_timer()
            self._timer = (silent_at, self._runtime.call_at(silent_at, self._look_for_silence))

    def _look_for_silence(self) -> None:
        self._timer = None
        silent_at, patience = self._silent_at
        if self._runtime.now() < silent_at:
            self._look_in_time()
            return
        if self._asked_since is not None:
            self._patience = min(2 * self._patience, SILENCE)
        self.reopen(Unavailable.of(f"the watch was silent for {in_words(patience)}"), 0)

    def _ended(self, error: CallError, after: Nanos = 0) -> None:
        now = self._runtime.now()
        self._stream, self._was_broken = None, True
        self._cancel_timer()
        pause = max(next(self._pauses), after)
        if self._asked_since is not None:
            pause = min(pause, _HURRIED + random.randint(0, _HURRIED))
        self._timer = (now + pause, self._runtime.call_at(now + pause, self.open))
        silent_for = 0 if self._last_message is None else now - self._last_message
        self._listener.broken(error, silent_for if silent_for >= HEARTBEAT else 0)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = None


def _pauses() -> Iterator[Nanos]:
    return backoff(50 * MILLISECOND, 3 * SECOND)
