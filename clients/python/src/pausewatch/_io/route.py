"""The replica that a client uses, and the channel to it.

1. A client has one channel at a time for everything: a move to another address moves the whole client.
2. If several calls fail at one replica, the client moves once: each call names the position at which it failed.
3. With one address the client never moves. A channel of a synchronous client may be replaced by a new one to the same address:
   gRPC connects again only while a call waits for a connection. Without the replacement, calls that do not wait could fail long
   after the server has come back.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..v1 import elicitation_service_pb2_grpc as pb_grpc
from .durations import MILLISECOND, Nanos

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_TIMEOUT: Nanos = 1_500 * MILLISECOND
"""How long a replica may take to answer before the client moves to the next one: longer than a takeover."""
MAX_MOVE_DELAY: Nanos = 500 * MILLISECOND
"""The longest random delay before a stream follows its client to another address."""
_REPLACE_INTERVAL: Nanos = 500 * MILLISECOND
"""The least time between two replacements of a channel."""

Channel = TypeVar("Channel")


def _stub(channel: Any) -> Any:
    return pb_grpc.ElicitationServiceStub(channel)


class Route(Generic[Channel]):
    """`make` makes the channel after that number of moves; `leave` receives the channel that was left. Thread-safe."""

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
        self._replaced_at: Nanos | None = None
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], object]] = set()

    @property
    def has_several(self) -> bool:
        """Whether there is more than one address."""
        return self.addresses > 1

    @property
    def now(self) -> tuple[int, Any]:
        """The number of moves so far, and the stub of the present channel."""
        return self._now

    def move_on(self, moves: int) -> bool:
        """Moves to the next address, unless the client has moved since `moves` was read. Returns False if there is no other
        address.
        """
        if not self.has_several:
            return False
        with self._lock:
            left = self.channel
            if self._now[0] != moves or left is None:
                return True
            self.channel = self._make(moves + 1)
            self._now = moves + 1, self._stub(self.channel)
            listeners = list(self._listeners)
        self._leave(left)
        for listener in listeners:
            listener()
        return True

    def replace(self, moves: int, now: Nanos) -> None:
        """Replaces the channel by a new one to the same address, unless that was done since `moves` was read or a moment ago.
        What runs over the former channel stays there.
        """
        with self._lock:
            recent = self._replaced_at is not None and now - self._replaced_at < _REPLACE_INTERVAL
            if self._now[0] != moves or self.channel is None or recent:
                return
            self._replaced_at = now
            self.channel = self._make(moves + 1)
            self._now = moves + 1, self._stub(self.channel)

    def drop(self) -> None:
        """Releases the channel. Nothing can be sent afterwards."""
        with self._lock:
            self.channel = None
            self._now = self._now[0], None

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Calls `listener` after each move, on any thread."""
        with self._lock:
            self._listeners.add(listener)

    def remove_listener(self, listener: Callable[[], object]) -> None:
        """Stops calling `listener`."""
        with self._lock:
            self._listeners.discard(listener)


def single_address() -> Route[Any]:
    """The route of a single address, without a channel."""
    return Route(1, lambda _: None, lambda _: None, lambda _: None)
