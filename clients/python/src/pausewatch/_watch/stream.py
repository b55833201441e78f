"""The stream of a watch, which is reopened after every disconnect.

1. A stream without a message for two heartbeats counts as dead (two and a half, if the server reports its heartbeat interval),
   even if TCP reports no error; while it awaits a confirmation, much sooner. Its first message must arrive within the
   deadline of a call. Only the time in which the stream is read counts: a slow reader does not disconnect its own stream, and
   neither does a process that did not get to run.
   Nor does a slow token source: the stream is opened after the token has come, within the deadline of a call.
2. Every disconnect is followed by a random retry delay, also if the stream had worked: the clients of a restarted server must
   not all reconnect at once.
3. With several addresses, a stream that ends, or has no first message in time, moves the whole client to the next address; a
   move by another part of the client ends the stream after a random delay.
4. After a disconnect the stream gets a connection of its own: the old one may be dead, and gRPC would wait before it opens
   another.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from .._io import tokens
from .._io.durations import MILLISECOND, SECOND, Nanos, in_words
from .._io.retry import backoff
from .._io.route import ANSWER_TIMEOUT, MAX_MOVE_DELAY
from ..errors import CallError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._io.runtime import Cancel, Runtime, Stream
    from ..v1 import elicitation_service_pb2 as pb

MAX_HEARTBEAT_INTERVAL: Nanos = 15 * SECOND
"""The heartbeat interval of a server that does not report its own. A connection that ends after a longer silence was dead
during the silence: it was closed because a ping had no answer, or by this library."""
SILENCE_TIMEOUT: Nanos = 2 * MAX_HEARTBEAT_INTERVAL
"""The longest silence of a server that does not report its heartbeat interval."""
_MIN_HEARTBEAT_INTERVAL: Nanos = 100 * MILLISECOND
"""The shortest heartbeat interval that a server may report."""
_LONGEST_HEARTBEAT_INTERVAL: Nanos = 3_600 * SECOND
"""The longest heartbeat interval that a server may report."""
_FIRST_RETRY_DELAY: Nanos = 50 * MILLISECOND
"""The first retry delay, plus up to as much again at random; it doubles each time that all addresses have failed."""
CONFIRMATION_TIMEOUT: Nanos = 250 * MILLISECOND
"""The longest silence while a confirmation is awaited; it doubles after each disconnect that it causes."""
_FIRST_ANSWER_TIMEOUT: Nanos = 2 * SECOND
"""The least such limit for a stream that has not answered a request yet: it may still be connecting."""
_LATE: Nanos = 10 * MILLISECOND
"""A check for silence that runs later than this after its time is repeated: this process was late itself."""
_MAX_TIMES_LATE = 5
"""How often it is repeated; each time after this part of the silence."""
_MAX_CONFIRMATION_DELAY: Nanos = 100 * MILLISECOND
"""The longest retry delay while a confirmation is awaited; plus up to as much again at random."""


class Listener(Protocol):
    """Receives the events of the stream. Requests can be sent from `on_opened` until `on_disconnected`."""

    def on_opened(self) -> None: ...
    def on_message(self, message: pb.WatchResponse) -> None: ...
    def on_disconnected(self, error: CallError, silent_for: Nanos) -> None: ...


class WatchStream:
    """Runs from `open` until `close`."""

    def __init__(self, runtime: Runtime, deadline: Nanos, listener: Listener) -> None:
        self._runtime = runtime
        # That of a call: for the token, and then for the first message.
        self._deadline = deadline
        self._listener = listener
        self._retry_delays = _retry_delays()
        self._confirmation_timeout = CONFIRMATION_TIMEOUT
        self._was_disconnected = False
        self._reading_stopped = False
        self._stream: Stream | None = None
        # The question to the token source, before the stream is opened.
        self._asking: Cancel | None = None
        self._token: str | None = None
        # The number of streams without an answer since the last stream with an answer.
        self._unanswered = 0
        # The heartbeat interval of the server, if it has reported one.
        self._interval: Nanos | None = None
        # The timer after which the stream follows its client to another address.
        self._move: Cancel | None = None
        self._on_client_moved = lambda: runtime.submit(self._follow_later)
        self._opened_at: Nanos = 0
        self._last_message: Nanos | None = None
        # Whether the open stream has answered a request.
        self._is_answered = False
        self._confirming_since: Nanos | None = None
        # How often the end of the silence was put off because this process was late.
        self._times_late = 0
        # The next check for silence, the next attempt to open the stream, or the end of the wait for a token.
        self._timer: tuple[Nanos, Cancel] | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._stream is not None

    @property
    def is_running(self) -> bool:
        """Whether it was opened and has not been closed since; also while it waits for a token, or to reconnect."""
        return self._stream is not None or self._timer is not None

    @property
    def token(self) -> str | None:
        """The token that the open stream began with, if it may be replaced later."""
        return self._token

    def open(self) -> None:
        """Opens the stream: now, or if there is a token source, when it has answered."""
        self._timer, self._last_message, self._interval = None, None, None
        if not self._runtime.has_token_source:
            self._open(None)
            return
        late_at = self._runtime.now() + self._deadline
        self._timer = (late_at, self._runtime.call_at(late_at, self._on_token_late))
        self._asking = self._runtime.next_token(self._on_token)

    def _on_token_late(self) -> None:
        self._cancel_question()
        self._on_token(tokens.late(self._deadline))

    def _on_token(self, token: str | CallError) -> None:
        self._asking = None
        self._cancel_timer()
        if isinstance(token, CallError):
            self._open_later(token, next(self._retry_delays))
        else:
            self._open(token)

    def _open(self, token: str | None) -> None:
        self._token, self._opened_at, self._is_answered = token, self._runtime.now(), False
        self._times_late = 0
        self._runtime.route.add_listener(self._on_client_moved)
        own_connection = self._was_disconnected
        self._stream = self._runtime.stream(token, self._on_message, self._on_end, own_connection=own_connection)
        if self._reading_stopped:
            self._stream.stop_reading()
        self._schedule_silence_check()
        self._follow_later()
        self._listener.on_opened()

    def close(self) -> None:
        """Closes the stream. The listener is not called afterwards."""
        self._cancel_timer()
        self._cancel_question()
        self._cancel_move()
        self._runtime.route.remove_listener(self._on_client_moved)
        self._was_disconnected = False
        if self._stream is not None:
            self._stream.cancel()
        self._stream = None

    def send(self, request: pb.WatchRequest) -> None:
        """Sends a request on the open stream."""
        assert self._stream is not None
        self._stream.send(request)

    def stop_reading(self) -> None:
        """Stops reading, until `resume_reading`."""
        self._reading_stopped = True
        if self._stream is not None:
            self._stream.stop_reading()

    def resume_reading(self) -> None:
        """Continues to read."""
        self._reading_stopped = False
        if self._stream is not None:
            self._opened_at = self._runtime.now()
            if self._last_message is not None:
                self._last_message = self._opened_at
            self._stream.resume_reading()

    def on_answer(self) -> None:
        """Notes that a request was answered: the stream works."""
        self._is_answered = True
        self._retry_delays, self._confirmation_timeout, self._unanswered = _retry_delays(), CONFIRMATION_TIMEOUT, 0

    def expect_confirmation(self, since: Nanos | None) -> None:
        """Sets the moment since which the oldest confirmation has been awaited; None: none is awaited."""
        self._confirming_since = since
        if since is None or self._asking is not None:
            return
        if self.is_open:
            self._schedule_silence_check()
        elif self._timer is not None and self._timer[0] > (soon := self._runtime.now() + 2 * _MAX_CONFIRMATION_DELAY):
            self._cancel_timer()
            self._timer = (soon, self._runtime.call_at(soon, self.open))

    def reopen(self, error: CallError, after: Nanos) -> None:
        """Disconnects the stream, and opens it again after that time at the earliest."""
        self._disconnect(error, after, move=True)

    def _disconnect(self, error: CallError, after: Nanos, *, move: bool) -> None:
        assert self._stream is not None
        self._stream.cancel()
        self._on_end(error, after, move=move)

    def _follow_later(self) -> None:
        """If the client has moved, the stream follows after a random delay, so that not all streams move at once."""
        if self._stream is not None and self._stream.moves != self._runtime.route.now[0] and self._move is None:
            self._move = self._runtime.call_at(self._runtime.now() + random.randint(0, MAX_MOVE_DELAY), self._follow)

    def _follow(self) -> None:
        if self._stream is not None:
            self._disconnect(Unavailable.of("the client has moved to another address"), 0, move=False)

    def _cancel_move(self) -> bool:
        move, self._move = self._move, None
        if move is not None:
            move.cancel()
        return move is not None

    def _on_message(self, message: pb.WatchResponse) -> None:
        self._last_message, self._times_late = self._runtime.now(), 0
        if message.WhichOneof("event") == "heartbeat":
            interval = message.heartbeat.interval.ToNanoseconds()
            accepted = min(max(interval, _MIN_HEARTBEAT_INTERVAL), _LONGEST_HEARTBEAT_INTERVAL)
            self._interval = accepted if interval > 0 else None
            self._schedule_silence_check()
        self._listener.on_message(message)

    @property
    def _silent_at(self) -> tuple[Nanos, Nanos]:
        """When the stream counts as dead unless a message arrives, and how long the silence is then."""
        longest = self._silence_timeout
        confirmation = self._confirmation_timeout if self._is_answered else max(self._confirmation_timeout, _FIRST_ANSWER_TIMEOUT)
        if self._reading_stopped:
            return self._runtime.now() + longest, longest
        if self._last_message is None:
            timeout = self._deadline
            if self._runtime.route.has_several:
                timeout = min(timeout, ANSWER_TIMEOUT)
            if self._confirming_since is not None:
                timeout = min(timeout, confirmation)
            return self._opened_at + timeout, timeout
        silent_at = self._last_message + longest
        if self._confirming_since is not None:
            answer_at = max(self._last_message, self._confirming_since, self._opened_at) + confirmation
            return (answer_at, confirmation) if answer_at < silent_at else (silent_at, longest)
        return silent_at, longest

    @property
    def _silence_timeout(self) -> Nanos:
        return SILENCE_TIMEOUT if self._interval is None else self._interval * 5 // 2

    def _schedule_silence_check(self) -> None:
        """Sets the timer only if it must fire earlier. Messages, of which there may be many, only move the moment later."""
        silent_at, _ = self._silent_at
        if self._timer is None or silent_at < self._timer[0]:
            self._cancel_timer()
            self._timer = (silent_at, self._runtime.call_at(silent_at, self._check_silence))

    def _check_silence(self) -> None:
        assert self._timer is not None
        (due, _), now = self._timer, self._runtime.now()
        self._timer = None
        silent_at, silence = self._silent_at
        if now < silent_at:
            self._schedule_silence_check()
            return
        if now - due > _LATE and self._times_late < _MAX_TIMES_LATE:
            # A message may have arrived that this process had no time to read.
            self._times_late += 1
            again = now + silence // _MAX_TIMES_LATE
            self._timer = (again, self._runtime.call_at(again, self._check_silence))
            return
        if self._confirming_since is not None:
            self._confirmation_timeout = min(2 * self._confirmation_timeout, SILENCE_TIMEOUT)
        # A slow confirmation is no reason to move the whole client, unless the next stream has no answer either.
        is_slow = self._is_answered and silence < self._silence_timeout
        self._disconnect(Unavailable.of(f"the watch was silent for {in_words(silence)}"), 0, move=not is_slow)

    def _on_end(self, error: CallError, after: Nanos = 0, *, move: bool = True) -> None:
        assert self._stream is not None
        moves = self._stream.moves
        self._stream, self._was_disconnected = None, True
        self._cancel_timer()
        # Every address would refuse in the same way, so only Unavailable moves the client.
        has_moved = move and isinstance(error, Unavailable) and self._runtime.route.move_on(moves)
        self._unanswered += has_moved
        if self._cancel_move():
            delay = after
        elif has_moved and self._unanswered % self._runtime.route.addresses:
            delay = max(_FIRST_RETRY_DELAY + random.randint(0, _FIRST_RETRY_DELAY), after)
        else:
            delay = max(next(self._retry_delays), after)
        self._open_later(error, delay)

    def _open_later(self, error: CallError, delay: Nanos) -> None:
        now = self._runtime.now()
        if self._confirming_since is not None:
            delay = min(delay, _MAX_CONFIRMATION_DELAY + random.randint(0, _MAX_CONFIRMATION_DELAY))
        self._timer = (now + delay, self._runtime.call_at(now + delay, self.open))
        silent_for = 0 if self._last_message is None else now - self._last_message
        self._listener.on_disconnected(error, silent_for if silent_for >= (self._interval or MAX_HEARTBEAT_INTERVAL) else 0)

    def _cancel_question(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._asking = None

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = None


def _retry_delays() -> Iterator[Nanos]:
    return backoff(_FIRST_RETRY_DELAY, 3 * SECOND)
