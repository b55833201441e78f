"""The interface between the background work of a client and the outside: a clock, timers, calls and streams with callbacks.

Renewals, watches and stopwatches are written once against this interface, as callbacks. They run on an event loop
(`loop.LoopRuntime`), on threads (`threads.ThreadRuntime`), and in tests on a manual clock.

1. Callbacks run one at a time, while `lock` is held. Callers from outside must hold it to read, and use `do` to change something.
2. After a `cancel`, the callback is not called any more.
3. A callback never blocks. Callbacks of the user are run by `defer`, without the lock.
4. When the runtime is closed, calls and streams end. Timers run until `release_timers` has been called once for each
   `keep_timers` of a stopwatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..errors import CallError
    from ..v1 import elicitation_service_pb2 as pb
    from .calls import Answer, Call
    from .durations import Nanos
    from .route import Route

_Result = TypeVar("_Result")


class Cancel(Protocol):
    """Something under way that can be cancelled. Cancelling it again, or after its end, does nothing."""

    def cancel(self) -> object: ...


class Stream(Cancel, Protocol):
    """An open stream of the RPC `Watch`. Between `stop_reading` and `resume_reading`, HTTP/2 flow control stops the server, which
    keeps only the latest state of each thread.
    """

    @property
    def moves(self) -> int:
        """The number of moves of its client when it was opened."""

    def send(self, request: pb.WatchRequest) -> None: ...
    def stop_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Dependent(Protocol):
    """Something that ends with its client, and must then wake its waiters."""

    def close(self) -> None: ...


class Runtime(Protocol):
    """See the module."""

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    @property
    def route(self) -> Route[Any]:
        """The replica that the client uses."""

    @property
    def is_foreign(self) -> bool:
        """Whether this process is a forked child of the runtime's process. The lock and the streams may then block forever."""

    def now(self) -> Nanos:
        """The monotonic clock."""

    def call_at(self, when: Nanos, run: Callable[[], object]) -> Cancel:
        """Runs a function at that moment, or as soon as possible afterwards."""

    def do(self, work: Callable[[], _Result]) -> _Result:
        """Does work for a caller from outside, and returns or raises its outcome. If the caller is interrupted, the work is still
        done, entirely.
        """

    def submit(self, run: Callable[[], object]) -> None:
        """Runs a function soon. May be called from any thread, from a destructor, and after the end (then it is not run)."""

    def defer(self, callback: Callable[[], object]) -> None:
        """Runs a callback of the user soon; its exceptions are logged."""

    @property
    def has_token_source(self) -> bool:
        """Whether the token may be replaced later."""

    def next_token(self, done: Callable[[str | CallError], None]) -> Cancel:
        """Calls the token source, and later `done`. The client must have a source."""

    def unary(self, call: Call[Answer], timeout: Nanos, done: Callable[[Answer | CallError], None]) -> Cancel:
        """Sends a call once. With one address it waits for a connection; with several, it uses the present address only."""

    def stream(
        self,
        token: str | None,
        on_message: Callable[[pb.WatchResponse], None],
        on_end: Callable[[CallError], None],
        *,
        own_connection: bool,
    ) -> Stream:
        """Opens a stream; `on_end` is called once, last. `token`: that of the source, if there is one. `own_connection`: on a new
        connection, not on that of the calls.
        """

    def keep_timers(self) -> None:
        """Keeps the timers running, also after the client is closed. The caller holds the lock."""

    def release_timers(self) -> None:
        """Ends one `keep_timers`. The caller holds the lock."""
