"""What the background work of a client needs of the world: a clock, timers, calls and streams that answer by callback.

Renewals, watches and stopwatches are written once against this, as callbacks, and run on an event loop
(`loop.LoopRuntime`), on threads (`threads.ThreadRuntime`), and in tests on a clock that is moved by hand.

1. Callbacks run one at a time, and what runs them holds `lock`; whoever calls in from outside takes it too.
2. After a `cancel` nothing is called back any more.
3. A callback never waits. What belongs to the user is run by `defer`, without the lock.
4. When it is closed, calls and streams end. Timers go on until the last stopwatch that has said `stay` has said `leave`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..errors import CallError
    from ..v1 import elicitation_service_pb2 as pb
    from .calls import Answer, Call
    from .durations import Nanos
    from .route import Route


class Cancel(Protocol):
    """Something under way that can be called off; afterwards, and when it is over, calling it off does nothing."""

    def cancel(self) -> object: ...


class Stream(Cancel, Protocol):
    """A stream of `Watch` that is open. While it is held it is not read: flow control tells the server, which keeps of each
    thread the latest state for later.
    """

    @property
    def token(self) -> str | None:
        """The token that it was opened with, if there may be another one later."""

    @property
    def moves(self) -> int:
        """After how many moves of its client it was opened."""

    def send(self, request: pb.WatchRequest) -> None: ...
    def hold(self) -> None: ...
    def go_on(self) -> None: ...


class Dependent(Protocol):
    """Something that ends with its client, and whose waiters must learn it."""

    def close(self) -> None: ...


class Runtime(Protocol):
    """See the module."""

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    @property
    def route(self) -> Route[Any]:
        """Which replica the client uses."""

    @property
    def is_foreign(self) -> bool:
        """Whether this process is a fork of the one that made it. Its lock and its streams may wait for ever here."""

    def now(self) -> Nanos:
        """The monotonic clock."""

    def call_at(self, when: Nanos, run: Callable[[], object]) -> Cancel:
        """Runs it at that moment, or as soon as it can afterwards."""

    def submit(self, run: Callable[[], object]) -> None:
        """Runs it soon. May be called from any thread, from a destructor, and after the end (then nothing is run)."""

    def defer(self, callback: Callable[[], object]) -> None:
        """Runs a callback of the user's soon; what it raises is logged."""

    def next_token(self) -> str | None:
        """The token as it is now; None: it never changes. Raises Unauthenticated."""

    def unary(self, call: Call[Answer], timeout: Nanos, done: Callable[[Answer | CallError], None]) -> Cancel:
        """Sends it once, when there is a connection; with several addresses, only to where the client is."""

    def stream(
        self,
        heard: Callable[[pb.WatchResponse], None],
        ended: Callable[[CallError], None],
        *,
        own_connection: bool,
    ) -> Stream:
        """Opens a stream; `ended` is called once, last. `own_connection`: not that of the calls, but a new one of its own."""


class LastingRuntime(Runtime, Protocol):
    """The runtime of a client."""

    def stay(self) -> None:
        """One more needs its timers, also after the client is closed. With the lock."""

    def leave(self) -> None:
        """One less does. With the lock."""
