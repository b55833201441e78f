"""Which replica a client uses, and the channel to it.

1. There is one channel at a time, for everything that a client does: what moves, moves everything.
2. Several callers that fail at one replica move once: a move names the position that it leaves.
3. With one address nothing ever moves.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..v1 import elicitation_service_pb2_grpc as pb_grpc
from .durations import MILLISECOND, Nanos

if TYPE_CHECKING:
    from collections.abc import Callable

NO_ANSWER: Nanos = 1_500 * MILLISECOND
"""How long a replica may take to answer before the next one is asked: longer than a takeover."""
LONGEST_MOVE_DELAY: Nanos = 500 * MILLISECOND
"""The longest random delay before a stream follows its client to another address."""

Channel = TypeVar("Channel")


def _stub(channel: Any) -> Any:
    return pb_grpc.ElicitationServiceStub(channel)


class Route(Generic[Channel]):
    """`make` makes the channel after so many moves, and `leave` gets the one before. May be used by any thread."""

    def __init__(
        self,
        addresses: int,
        make: Callable[[int], Channel],
        leave: Callable[[Channel], object],
        stub: Callable[[Channel], Any] = _stub,
    ) -> None:
        self.addresses = addresses
        self._make = make
        self._leave = leave
        self._stub = stub
        self.channel: Channel | None = make(0)
        self._now: tuple[int, Any] = 0, stub(self.channel)
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], object]] = set()

    @property
    def several(self) -> bool:
        """Whether there is another replica to ask."""
        return self.addresses > 1

    @property
    def now(self) -> tuple[int, Any]:
        """How often it has moved, and the stub of the channel since then."""
        return self._now

    def move_on(self, moves: int) -> bool:
        """Goes to the next address, unless that was done since there had been so many moves. False: there is no other."""
        if not self.several:
            return False
        with self._lock:
            left = self.channel
            if self._now[0] != moves or left is None:
                return True
            self.channel = self._make(moves + 1)
            self._now = moves + 1, self._stub(self.channel)
            listeners = list(self._listeners)
        self._leave(left)
        for told in listeners:
            told()
        return True

    def drop(self) -> None:
        """Nothing is sent afterwards, and it keeps no channel."""
        with self._lock:
            self.channel = None
            self._now = self._now[0], None

    def listen(self, told: Callable[[], object]) -> None:
        """Calls it after each move, on any thread."""
        with self._lock:
            self._listeners.add(told)

    def forget(self, told: Callable[[], object]) -> None:
        """Calls it no more."""
        with self._lock:
            self._listeners.discard(told)


def nowhere_else() -> Route[Any]:
    """The route of a single address, without a channel."""
    return Route(1, lambda _: None, lambda _: None, lambda _: None)
