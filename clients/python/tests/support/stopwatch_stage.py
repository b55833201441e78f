"""Stopwatches under threads, on a moved clock: limits of 10 s, a disconnect grace of 30 s."""

from __future__ import annotations

import pausewatch as pw
from pausewatch._io.durations import SECOND, to_seconds
from pausewatch._stopwatch.controller import Controller
from pausewatch._stopwatch.ticking import Ticking
from pausewatch.v1 import elicitation_service_pb2 as pb

from .fake_runtime import FakeRuntime, Stream

LOST = pw.Unavailable.of("connection lost")


class Stage:
    """A controller, and a server whose threads are all unknown."""

    def __init__(self, grace: float = 30) -> None:
        self.runtime = FakeRuntime()
        self._links: list[pw.Link] = []
        self.controller = Controller(self.runtime, 5 * SECOND, round(grace * SECOND), self._links.append)
        self.ended: list[tuple[Ticking, float]] = []
        self.connected = True

    def start(
        self, thread_id: str = "t", limit: float | None = 10, max_wall: float | None = None, began_ago: float = 0
    ) -> Ticking:
        """`began_ago`: how long it took to start it."""
        length = None if limit is None else round(limit * SECOND)
        wall = None if max_wall is None else round(max_wall * SECOND)
        began = self.runtime.now() - round(began_ago * SECOND)
        ticking = Ticking(self.runtime, self.controller, thread_id, length, began, lambda: self._ended(ticking), wall)
        return ticking

    def linked(self, thread_id: str = "t", limit: float | None = 10, max_wall: float | None = None) -> Ticking:
        """One whose thread is known to run."""
        ticking = self.start(thread_id, limit, max_wall)
        stream = self.stream
        stream.state(thread_id, 1)
        stream.complete()
        return ticking

    @property
    def stream(self) -> Stream:
        return self.runtime.streams[-1]

    @property
    def links(self) -> list[pw.Link]:
        """The link changes that were reported so far."""
        while self.runtime.deferred:
            self.runtime.deferred.pop(0)()
        return self._links

    def disconnect(self) -> None:
        self.connected = False
        self.stream.end(LOST)

    def reconnect(self, seconds: float) -> None:
        """Moves the clock, and then until a stream is open."""
        self.move_to(seconds)
        while not self.runtime.streams:
            self.runtime.move_to(self.runtime.seconds + 0.01)

    @property
    def confirming(self) -> list[str]:
        """The threads of the confirmation that is under way."""
        return [thread_id for stream in self.runtime.streams if stream.request for thread_id in stream.request.confirm]

    def answer(self, *states: pb.PauseState) -> None:
        """Answers the confirmation that is under way."""
        self.stream.confirm(*states)

    def move_to(self, seconds: float) -> None:
        """Moves the clock; the server that is connected sends its heartbeats."""
        while self.runtime.seconds + 15 < seconds:
            self.runtime.move_to(self.runtime.seconds + 15)
            if self.connected:
                for stream in self.runtime.streams:
                    stream.heartbeat()
        self.runtime.move_to(seconds)

    def _ended(self, ticking: Ticking) -> None:
        self.ended.append((ticking, self.runtime.seconds))

    def expiries(self) -> list[float]:
        return [when for ticking, when in self.ended if ticking.is_expired]


def elapsed(ticking: Ticking) -> float:
    return to_seconds(ticking.elapsed())
