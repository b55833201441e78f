"""One stream of a watch, opened again whenever it breaks.

1. A stream without a message for two heartbeats counts as dead, even if TCP reports no error. Its first message must
   come within the deadline of a call. Only time in which it is read counts: a slow reader does not break its own stream.
2. After every break comes a random pause, also when the stream had worked: the clients of a restarted server must not all
   come back at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .._io.durations import MILLISECOND, SECOND, Nanos, in_words
from .._io.retry import backoff
from ..errors import Unavailable
from ..messages import PauseState
from ..v1 import elicitation_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._io.runtime import Cancel, Runtime, Stream
    from ..errors import CallError

HEARTBEAT: Nanos = 15 * SECOND
"""The time within which the server promises a heartbeat. A connection that ends after a longer silence was dead during it: its
end is what a ping without an answer, or this library, has made of the silence."""
SILENCE: Nanos = 2 * HEARTBEAT
"""The longest silence."""


class Listener(Protocol):
    """Receives what a stream brings, with the number of the stream."""

    def state(self, number: int, state: PauseState) -> None: ...
    def snapshot_complete(self, number: int) -> None: ...
    def broken(self, number: int, error: CallError, silent_for: Nanos) -> None: ...


class WatchStream:
    """Runs from its making until `close`. No thread ids: every thread."""

    def __init__(
        self,
        runtime: Runtime,
        number: int,
        request: pb.WatchPauseStateRequest,
        first_answer_within: Nanos,
        listener: Listener,
    ) -> None:
        self._runtime = runtime
        self._number = number
        self._request = request
        self._first_answer_within = first_answer_within
        self._listener = listener
        self._pauses = _pauses()
        self._was_broken = False
        self._held = False
        self._last_message: Nanos | None = None
        self._open()

    def close(self) -> None:
        """Nothing is heard of it afterwards."""
        self._stream.cancel()
        self._timer.cancel()

    def hold(self) -> None:
        """Reads no further."""
        self._held = True
        self._stream.hold()

    def go_on(self) -> None:
        """Reads again."""
        self._held = False
        self._silent_at = self._runtime.now() + self._patience
        if self._last_message is not None:
            self._last_message = self._runtime.now()
        self._stream.go_on()

    def _open(self) -> None:
        self._silent_at = self._runtime.now() + self._first_answer_within
        self._patience: Nanos = self._first_answer_within
        self._last_message = None
        self._timer: Cancel = self._runtime.call_at(self._silent_at, self._look_for_silence)
        # The first break must be told at once; afterwards a connection is waited for.
        self._stream: Stream = self._runtime.stream(self._request, self._heard, self._ended, wait_for_ready=self._was_broken)
        if self._held:
            self._stream.hold()

    def _heard(self, message: pb.WatchPauseStateResponse) -> None:
        self._patience = SILENCE
        self._last_message = self._runtime.now()
        self._silent_at = self._last_message + SILENCE
        match message.WhichOneof("event"):
            case "pause_state":
                self._listener.state(self._number, PauseState.read(message.pause_state))
            case "snapshot_complete":
                self._pauses = _pauses()
                self._listener.snapshot_complete(self._number)
            # A heartbeat, or an event of a newer server, is only a sign of life.

    def _look_for_silence(self) -> None:
        if self._held:
            self._silent_at = self._runtime.now() + self._patience
        # Messages move the moment and leave the timer alone: there may be many.
        if self._runtime.now() < self._silent_at:
            self._timer = self._runtime.call_at(self._silent_at, self._look_for_silence)
            return
        self._stream.cancel()
        self._ended(Unavailable.of(f"the watch was silent for {in_words(self._patience)}"))

    def _ended(self, error: CallError) -> None:
        self._was_broken = True
        self._timer.cancel()
        self._timer = self._runtime.call_at(self._runtime.now() + next(self._pauses), self._open)
        silent_for = 0 if self._last_message is None else self._runtime.now() - self._last_message
        self._listener.broken(self._number, error, silent_for if silent_for >= HEARTBEAT else 0)


def _pauses() -> Iterator[Nanos]:
    return backoff(50 * MILLISECOND, 3 * SECOND)
