"""The stream of a watch, opened again whenever it breaks.

1. A stream without a message for two heartbeats counts as dead (for two and a half, if the server says how often they come),
   even if TCP reports no error; one that owes the answer to a question, much sooner. Its first message must come within the
   deadline of a call. Only time in which it is read counts: a slow reader does not break its own stream.
2. After every break comes a random pause, also when the stream had worked: the clients of a restarted server must not all
   come back at once.
3. With several addresses, a stream that ends, or has no first message in time, moves the whole client to the next one; a move
   by others ends the stream after a random delay.
4. After a break the stream gets a connection of its own: the old one may be dead, and gRPC would wait before it makes another.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from .._io.durations import MILLISECOND, SECOND, Nanos, in_words
from .._io.retry import backoff
from .._io.route import LONGEST_MOVE_DELAY, NO_ANSWER
from ..errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._io.runtime import Cancel, Runtime, Stream
    from ..errors import CallError
    from ..v1 import elicitation_service_pb2 as pb

HEARTBEAT: Nanos = 15 * SECOND
"""The time within which a server promises a heartbeat that does not say its own. A connection that ends after a longer silence
was dead during it: its end is what a ping without an answer, or this library, has made of the silence."""
SILENCE: Nanos = 2 * HEARTBEAT
"""The longest silence then."""
_LEAST_HEARTBEAT: Nanos = 100 * MILLISECOND
"""The shortest interval that a server may say."""
_FIRST_PAUSE: Nanos = 50 * MILLISECOND
"""The pause after a break; while every address fails, it doubles with each lap."""
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
        # Streams without an answer since the last one with one.
        self._unanswered = 0
        # How often the server sends a heartbeat, if it has said so.
        self._interval: Nanos | None = None
        # The stream is about to follow its client to another address.
        self._move: Cancel | None = None
        self._told_of_move = lambda: runtime.submit(self._client_moved)
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
        self._interval = None
        self._runtime.route.listen(self._told_of_move)
        self._stream = self._runtime.stream(self._heard, self._ended, own_connection=self._was_broken)
        if self._held:
            self._stream.hold()
        self._look_in_time()
        self._client_moved()
        self._listener.opened()

    def close(self) -> None:
        """Nothing is heard of it afterwards."""
        self._cancel_timer()
        self._cancel_move()
        self._runtime.route.forget(self._told_of_move)
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
        self._pauses, self._patience, self._unanswered = _pauses(), ANSWER, 0

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
        self._break(error, after, leave=True)

    def _break(self, error: CallError, after: Nanos, *, leave: bool) -> None:
        assert self._stream is not None
        self._stream.cancel()
        self._ended(error, after, leave=leave)

    def _client_moved(self) -> None:
        """The client has moved, perhaps: the stream follows, not all streams at once."""
        if self._stream is not None and self._stream.moves != self._runtime.route.now[0] and self._move is None:
            self._move = self._runtime.call_at(self._runtime.now() + random.randint(0, LONGEST_MOVE_DELAY), self._follow)

    def _follow(self) -> None:
        if self._stream is not None:
            self._break(Unavailable.of("the client has moved to another address"), 0, leave=False)

    def _cancel_move(self) -> bool:
        move, self._move = self._move, None
        if move is not None:
            move.cancel()
        return move is not None

    def _heard(self, message: pb.WatchResponse) -> None:
        self._last_message = self._runtime.now()
        if message.WhichOneof("event") == "heartbeat":
            every = message.heartbeat.interval.ToNanoseconds()
            self._interval = max(every, _LEAST_HEARTBEAT) if every > 0 else None
            self._look_in_time()
        self._listener.heard(message)

    @property
    def _silent_at(self) -> tuple[Nanos, Nanos]:
        """From when on it counts as dead unless a message comes, and after how long a silence that is."""
        longest = self._longest_silence
        if self._held:
            return self._runtime.now() + longest, longest
        if self._last_message is None:
            patience = self._first_message_within
            if self._runtime.route.several:
                patience = min(patience, NO_ANSWER)
            if self._asked_since is not None:
                patience = min(patience, max(self._patience, _FIRST_ANSWER))
            return self._opened_at + patience, patience
        silent_at = self._last_message + longest
        if self._asked_since is not None:
            answer_at = max(self._last_message, self._asked_since, self._opened_at) + self._patience
            return (answer_at, self._patience) if answer_at < silent_at else (silent_at, longest)
        return silent_at, longest

    @property
    def _longest_silence(self) -> Nanos:
        return SILENCE if self._interval is None else self._interval * 5 // 2

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
        # A slow answer is no reason to move everything, unless the next stream has none either.
        is_slow = self._last_message is not None and patience < self._longest_silence
        self._break(Unavailable.of(f"the watch was silent for {in_words(patience)}"), 0, leave=not is_slow)

    def _ended(self, error: CallError, after: Nanos = 0, *, leave: bool = True) -> None:
        now = self._runtime.now()
        assert self._stream is not None
        moves = self._stream.moves
        self._stream, self._was_broken = None, True
        self._cancel_timer()
        # A refusal is the same everywhere.
        leaves = leave and isinstance(error, Unavailable) and self._runtime.route.move_on(moves)
        self._unanswered += leaves
        if self._cancel_move():
            pause = after
        elif leaves and self._unanswered % self._runtime.route.addresses:
            pause = max(_FIRST_PAUSE + random.randint(0, _FIRST_PAUSE), after)
        else:
            pause = max(next(self._pauses), after)
        if self._asked_since is not None:
            pause = min(pause, _HURRIED + random.randint(0, _HURRIED))
        self._timer = (now + pause, self._runtime.call_at(now + pause, self.open))
        silent_for = 0 if self._last_message is None else now - self._last_message
        self._listener.broken(error, silent_for if silent_for >= (self._interval or HEARTBEAT) else 0)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = None


def _pauses() -> Iterator[Nanos]:
    return backoff(_FIRST_PAUSE, 3 * SECOND)
