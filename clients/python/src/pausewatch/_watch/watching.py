"""Drives `stream_set`: opens and closes their streams, asks for what a snapshot left out, and hands the events on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from .._io import calls
from .._io.durations import MILLISECOND, SECOND, Nanos
from .._io.retry import backoff, call_less_often
from ..errors import CallError
from ..v1 import elicitation_service_pb2 as pb
from .stream import WatchStream
from .stream_set import StreamSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.runtime import Cancel, Runtime
    from ..messages import PauseState
    from .events import Event


class Watching:
    """A watch in the background, from `start` until `close`."""

    def __init__(
        self,
        runtime: Runtime,
        deadline: Nanos,
        tell: Callable[[Event], None],
        *,
        everything: bool = False,
        elicitations: bool = False,
    ) -> None:
        self._runtime = runtime
        self._deadline = deadline
        self._tell = tell
        self._elicitations = elicitations
        self._set = StreamSet(everything=everything)
        self._running: dict[int, WatchStream] = {}
        self._asking: Cancel | None = None
        self._pauses = backoff(50 * MILLISECOND, 3 * SECOND)
        self._held = False
        self._closed = False

    def add(self, thread_id: str) -> None:
        """Watches one thread more; `start` sees to it."""
        self._set.add(thread_id)

    def remove(self, thread_id: str) -> None:
        """Watches one thread less."""
        self._set.remove(thread_id)
        self.start()

    def start(self) -> None:
        """Does what has become necessary."""
        if self._closed:
            return
        while self._set.events:
            self._tell(self._set.events.popleft())
        self._set.open_next()
        while self._set.to_open:
            number, thread_ids = self._set.to_open.popleft()
            request = pb.WatchPauseStateRequest(thread_ids=thread_ids, include_elicitations=self._elicitations)
            self._running[number] = stream = WatchStream(self._runtime, number, request, self._deadline, self)
            if self._held:
                stream.hold()
        while self._set.to_close:
            self._running.pop(self._set.to_close.popleft()).close()
        self._ask_for_missing()

    def hold(self) -> None:
        """Tells no more than what is on its way, until `go_on`."""
        self._held = True
        for stream in self._running.values():
            stream.hold()

    def go_on(self) -> None:
        """Tells again."""
        self._held = False
        for stream in self._running.values():
            stream.go_on()

    def close(self) -> None:
        """Nothing is told afterwards."""
        self._closed = True
        for stream in self._running.values():
            stream.close()
        self._running.clear()
        if self._asking is not None:
            self._asking.cancel()

    def state(self, number: int, state: PauseState) -> None:
        self._set.state(number, state)
        self.start()

    def snapshot_complete(self, number: int) -> None:
        self._set.snapshot_complete(number)
        self.start()

    def broken(self, number: int, error: CallError, silent_for: Nanos) -> None:
        self._set.broken(number, error, timedelta(microseconds=silent_for // 1_000))
        if self._asking is not None and not self._set.missing:
            # What was asked for before a break may be older than what is missing after it.
            self._asking.cancel()
            self._asking = None
        self.start()

    def _ask_for_missing(self) -> None:
        """Asks for one of them; the answer brings the next."""
        if self._asking is not None or not self._set.missing:
            return
        thread_id = self._set.missing[-1]
        self._asking = self._runtime.unary(calls.get(thread_id), self._deadline, lambda answer: self._answered(thread_id, answer))

    def _answered(self, thread_id: str, answer: PauseState | CallError) -> None:
        if isinstance(answer, CallError) and answer.is_transient:
            pause = next(self._pauses) + (call_less_often(answer) or 0)
            self._asking = self._runtime.call_at(self._runtime.now() + pause, self._ask_again)
            return
        self._asking = None
        self._pauses = backoff(50 * MILLISECOND, 3 * SECOND)
        self._set.found(thread_id, None if isinstance(answer, CallError) else self._as_asked_for(answer))
        self.start()

    def _ask_again(self) -> None:
        self._asking = None
        self.start()

    def _as_asked_for(self, state: PauseState) -> PauseState:
        return state if self._elicitations else replace(state, elicitations=())
