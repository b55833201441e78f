"""A runtime whose clock is moved by hand, and whose calls and streams are answered by the test."""

from __future__ import annotations

import heapq
import itertools
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pausewatch._io.durations import SECOND
from pausewatch._io.route import single_address
from pausewatch.messages import PauseState
from pausewatch.v1 import elicitation_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from pausewatch._io.calls import Call
    from pausewatch._io.durations import Nanos
    from pausewatch._io.route import Route
    from pausewatch.errors import CallError


@dataclass(eq=False)
class Timer:
    run: Callable[[], object] | None

    def cancel(self) -> None:
        self.run = None


@dataclass(eq=False)
class SentCall:
    """A call under way."""

    runtime: FakeRuntime
    call: Call[Any]
    timeout: Nanos
    done: Callable[[Any], None]

    def answer(self, answer: object) -> None:
        self.runtime.calls.remove(self)
        self.done(answer)

    def cancel(self) -> None:
        if self in self.runtime.calls:
            self.runtime.calls.remove(self)


@dataclass(eq=False)
class Stream:
    """A stream that is open. At most one request is unanswered; `watched` are the threads of those that were sent."""

    runtime: FakeRuntime
    on_message: Callable[[pb.WatchResponse], None]
    on_end: Callable[[CallError], None]
    own_connection: bool
    token: str | None = None
    moves: int = 0
    reading_stopped: bool = False
    sent: list[pb.WatchRequest] = field(default_factory=list)
    answers: int = 0
    watched: dict[str, None] = field(default_factory=dict)

    @property
    def request(self) -> pb.WatchRequest | None:
        """The one that is unanswered."""
        return self.sent[-1] if len(self.sent) > self.answers else None

    def send(self, request: pb.WatchRequest) -> None:
        assert self.request is None, "one after the other"
        assert request.ByteSize() > 0
        assert len(request.add) + len(request.remove) + len(request.confirm) <= 500
        assert not (self.sent and (request.all_threads or request.include_elicitations)), "only the first one may"
        assert not (request.confirm and (request.add or request.remove or request.all_threads))
        self.sent.append(request)
        for thread_id in request.remove:
            self.watched.pop(thread_id, None)
        self.watched |= dict.fromkeys(request.add)

    def stop_reading(self) -> None:
        self.reading_stopped = True

    def resume_reading(self) -> None:
        self.reading_stopped = False

    def state(self, thread_id: str, revision: int, count: int = 0, total: float = 0, epoch: int = 1) -> None:
        self.on_message(pb.WatchResponse(pause_state=wire_state(thread_id, revision, count, total, epoch)))

    def complete(self) -> None:
        """Ends the answer to the request that is unanswered."""
        assert self.request is not None
        self.answers += 1
        self.on_message(pb.WatchResponse(snapshot_complete=pb.SnapshotComplete(requests=self.answers)))

    def confirm(self, *states: pb.PauseState) -> None:
        """Answers the request that is unanswered, which asks for these threads."""
        assert self.request is not None
        assert list(self.request.confirm) == [state.thread_id for state in states]
        self.on_message(pb.WatchResponse(confirmation=pb.Confirmation(pause_states=states)))
        self.complete()

    def refuse(self, refusal: pb.Refusal) -> None:
        """Refuses the request that is unanswered."""
        assert self.request is not None
        for thread_id in self.request.add:
            self.watched.pop(thread_id, None)
        self.answers += 1
        refusal.request = self.answers
        self.on_message(pb.WatchResponse(refusal=refusal))

    def heartbeat(self) -> None:
        self.on_message(pb.WatchResponse(heartbeat=pb.Heartbeat()))

    def end(self, error: CallError) -> None:
        self.runtime.streams.remove(self)
        self.on_end(error)

    def cancel(self) -> None:
        if self in self.runtime.streams:
            self.runtime.streams.remove(self)


class FakeRuntime:
    """See `pausewatch._io.runtime.Runtime`. Moments are seconds from the start in the tests, nanoseconds inside."""

    def __init__(self) -> None:
        self.lock = nullcontext()
        self.is_foreign = False
        self.route: Route[Any] = single_address()
        # The token of the source; None: there is no source.
        self.token: str | None = None
        # How long the source needs, in seconds.
        self.token_delay: float = 0
        self.calls: list[SentCall] = []
        # The number of calls so far.
        self.sent = 0
        self.streams: list[Stream] = []
        self.deferred: list[Callable[[], object]] = []
        self._now: Nanos = 1_000 * SECOND
        self._start = self._now
        self._numbers = itertools.count()
        self._timers: list[tuple[Nanos, int, Timer]] = []

    def now(self) -> Nanos:
        return self._now

    def call_at(self, when: Nanos, run: Callable[[], object]) -> Timer:
        timer = Timer(run)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def do(self, work: Callable[[], Any]) -> Any:
        return work()

    def submit(self, run: Callable[[], object]) -> None:
        run()

    def defer(self, callback: Callable[[], object]) -> None:
        self.deferred.append(callback)

    @property
    def has_token_source(self) -> bool:
        return self.token is not None

    def next_token(self, done: Callable[[str | CallError], None]) -> Timer:
        token = self.token
        assert token is not None
        return self.call_at(self._now + round(self.token_delay * SECOND), lambda: done(token))

    def unary(self, call: Call[Any], timeout: Nanos, done: Callable[[Any], None]) -> SentCall:
        sent_call = SentCall(self, call, timeout, done)
        self.calls.append(sent_call)
        self.sent += 1
        return sent_call

    def stream(
        self,
        token: str | None,
        on_message: Callable[[pb.WatchResponse], None],
        on_end: Callable[[CallError], None],
        *,
        own_connection: bool,
    ) -> Stream:
        stream = Stream(self, on_message, on_end, own_connection, token, self.route.now[0])
        self.streams.append(stream)
        return stream

    def keep_timers(self) -> None: ...

    def release_timers(self) -> None: ...

    def move_to(self, seconds: float) -> None:
        """Moves the clock to that many seconds after the start, and runs what is due on the way, each at its time."""
        end = self._start + round(seconds * SECOND)
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if (run := timer.run) is not None:
                timer.run = None
                run()
        self._now = end

    def stall(self, seconds: float) -> None:
        """Time in which nothing runs, not even what is due: the process is stopped."""
        self._now += round(seconds * SECOND)

    @property
    def timers(self) -> int:
        """The number of timers that have not fired yet."""
        return sum(timer.run is not None for _, _, timer in self._timers)

    @property
    def seconds(self) -> float:
        """The clock, from the start."""
        return (self._now - self._start) / SECOND


def wire_state(thread_id: str, revision: int, count: int = 0, total: float = 0, epoch: int = 1) -> pb.PauseState:
    state = pb.PauseState(thread_id=thread_id, revision=revision, count=count, paused=count > 0, store_epoch=epoch)
    state.paused_total.FromNanoseconds(round(total * SECOND))
    return state


def state(thread_id: str, revision: int, count: int = 0, total: float = 0) -> PauseState:
    return PauseState.read(wire_state(thread_id, revision, count, total))
