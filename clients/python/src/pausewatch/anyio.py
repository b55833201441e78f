"""`move_on_after` and `fail_after` of AnyIO, with a clock that stands still while the thread is paused.

```python
from pausewatch.anyio import fail_after

with fail_after(10, thread_id="thread-1"):
    await command()
```

The block is an `anyio.CancelScope` that is cancelled when a stopwatch of the synchronous client expires. So it works on asyncio
and on Trio, and cancellation, nesting and shielding are those of AnyIO. Requires AnyIO 4.11, which the extra `anyio` installs.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.lowlevel

from .client import Client
from .stopwatch import DISCONNECT_GRACE, EndedBy, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ._io.durations import Seconds

__all__ = ["FailingScope", "PausableScope", "fail_after", "move_on_after"]


class _Scope:
    def __init__(self, start: Callable[[], Stopwatch], *, shield: bool) -> None:
        self._start = start
        self._scope = anyio.CancelScope(shield=shield)
        self._stopwatch: Stopwatch | None = None
        self._timed_out = False
        self._left = False

    @property
    def stopwatch(self) -> Stopwatch:
        """Its stopwatch: to pause it, and to read the remaining time.

        Raises RuntimeError before the block is entered.
        """
        if self._stopwatch is None:
            raise RuntimeError("this scope has not been entered")
        return self._stopwatch

    @property
    def shield(self) -> bool:
        """Whether cancellation from outside is delayed until the end of the block."""
        return self._scope.shield

    @shield.setter
    def shield(self, value: bool) -> None:
        self._scope.shield = value

    @property
    def cancel_called(self) -> bool:
        """Whether the scope was cancelled, by its limit or by `cancel`."""
        return self._scope.cancel_called

    @property
    def cancelled_caught(self) -> bool:
        """Whether this cancellation ended the block."""
        return self._scope.cancelled_caught

    @property
    def ended_by(self) -> EndedBy | None:
        """The limit that ended the block; None: no limit did."""
        return self.stopwatch.ended_by if self._timed_out and self._scope.cancelled_caught else None

    def cancel(self) -> None:
        """Cancels the block now. This does not count as a timeout."""
        self._scope.cancel()

    def __enter__(self) -> Self:
        run_soon = _runs_soon()
        stopwatch = self._start()
        try:
            self._scope.__enter__()
        except BaseException:
            stopwatch.stop()
            raise
        self._stopwatch = stopwatch
        stopwatch.call_when_expired(lambda: run_soon(self._expired))
        return self

    def _leave(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        self._left = True
        self.stopwatch.stop()
        return bool(self._scope.__exit__(kind, error, traceback))

    def _expired(self) -> None:
        # The block may have ended, or been cancelled, since the stopwatch expired.
        if not self._left and not self._scope.cancel_called:
            self._timed_out = True
            self._scope.cancel()


# Two classes for type checkers: for them, `-> bool` means that the code after the block may run although the block did not end.
class PausableScope(_Scope):
    """A cancel scope with a time limit for one `with` block. Made by `move_on_after`. The time runs from the block's entry."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        return self._leave(kind, error, traceback)


class FailingScope(_Scope):
    """The same as `PausableScope`, but raises TimeoutError if the limit has ended the block. Made by `fail_after`."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        handled = self._leave(kind, error, traceback)
        if self.ended_by is not None:
            raise TimeoutError
        return handled


def move_on_after(
    delay: Seconds | None,
    shield: bool = False,
    *,
    thread_id: str | None = None,
    client: Client | None = None,
    max_wall: Seconds | None = None,
    disconnect_grace: Seconds = DISCONNECT_GRACE,
) -> PausableScope:
    """The same as `anyio.move_on_after`: leaves the block after `delay` seconds in which the thread was not paused.

    `delay` None: there is no limit. `client` None: the shared client of the process, configured from the environment. The other
    arguments are those of `Client.stopwatch`.

    Raises ConfigError; InvalidField at the entry of the block: the thread id or a time is not valid.
    """
    return PausableScope(_starter(delay, thread_id, client, max_wall, disconnect_grace), shield=shield)


def fail_after(
    delay: Seconds | None,
    shield: bool = False,
    *,
    thread_id: str | None = None,
    client: Client | None = None,
    max_wall: Seconds | None = None,
    disconnect_grace: Seconds = DISCONNECT_GRACE,
) -> FailingScope:
    """The same as `move_on_after`, but raises TimeoutError if the limit has ended the block, as `anyio.fail_after` does."""
    return FailingScope(_starter(delay, thread_id, client, max_wall, disconnect_grace), shield=shield)


def _starter(
    limit: Seconds | None, thread_id: str | None, client: Client | None, max_wall: Seconds | None, grace: Seconds
) -> Callable[[], Stopwatch]:
    chosen = client or _default_client()
    return lambda: chosen.stopwatch(limit, thread_id=thread_id, max_wall=max_wall, disconnect_grace=grace)


def _runs_soon() -> Callable[[Callable[[], None]], None]:
    """Returns a thread-safe function that runs its argument in the running event loop, unless the loop has ended."""
    # Not anyio.from_thread: it waits for the loop, and would block the callbacks of other loops on the same thread.
    native: Any = anyio.lowlevel.current_token().native_token
    submit = native.call_soon_threadsafe if isinstance(native, asyncio.AbstractEventLoop) else native.run_sync_soon

    def run_soon(function: Callable[[], None]) -> None:
        try:
            submit(function)
        except RuntimeError:
            return  # The loop has ended, and so has the block.

    return run_soon


_default_lock = threading.Lock()
_defaults: dict[int, Client] = {}


def _default_client() -> Client:
    # The key is the process id: a forked child needs a client of its own.
    with _default_lock:
        if (client := _defaults.get(os.getpid())) is None:
            client = _defaults[os.getpid()] = Client.from_env()
        return client
