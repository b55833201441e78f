"""The connection of an asynchronous client: calls with retries, its runtime, and background work that outlives a block.

It belongs to the event loop on which it is first used.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from . import status
from .channel import channel_spec
from .durations import Nanos, Seconds, to_deadline, to_seconds
from .loop import LoopRuntime
from .retry import Attempts
from .route import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .._stopwatch.controller import Controller
    from ..config import Config
    from .calls import Answer, Call
    from .runtime import Dependent

_Result = TypeVar("_Result")

_CLOSED = "this pausewatch client is closed"


class _Opened:
    """The parts of a connection that need the event loop."""

    def __init__(self, connection: AsyncConnection) -> None:
        spec = connection.spec
        self.loop = asyncio.get_running_loop()
        # A channel without references closes by itself, after its last call and stream.
        self.route = Route(len(spec.targets), spec.open_async, lambda _: None)
        self.runtime = LoopRuntime(self.route, spec)


class AsyncConnection:
    """Shared by a client and everything that it made. Closed with the client, or when the last of them is garbage-collected."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.deadline = to_deadline(config.deadline)
        self.dependents: weakref.WeakSet[Dependent] = weakref.WeakSet()
        # The key is the disconnect grace.
        self.controllers: dict[Nanos, Controller] = {}
        self.spec = channel_spec(config)
        self._opened: _Opened | None = None
        self._closing = False
        self._closed = False
        self._background: set[asyncio.Future[Any]] = set()

    async def run(self, call: Call[Answer], deadline: Seconds | None = None, *, persistent: bool = False) -> Answer:
        """Sends the call until it is answered or refused, or its deadline has passed. `persistent`: retries without a limit."""
        timeout = self.deadline if deadline is None else to_deadline(deadline)
        began = time.monotonic_ns()
        retries = None if persistent else self.config.retries
        attempts = Attempts(timeout, began, retries, self._open().route)
        while True:
            self.check()
            token = await self.spec.next_token(max(0, began + timeout - time.monotonic_ns()), timeout)
            self.check()
            metadata = self.spec.metadata(token)
            stub, limit = attempts.begin(time.monotonic_ns())
            send = getattr(stub, call.method)
            try:
                response = await send(
                    call.request, timeout=to_seconds(limit), metadata=metadata, wait_for_ready=attempts.wait_for_ready
                )
            except grpc.RpcError as failure:
                error = status.read(failure, self.spec.address)
            except asyncio.CancelledError:
                self._raise_if_only_closed()
                raise
            else:
                return call.read(response)
            await asyncio.sleep(to_seconds(attempts.retry_delay(error, time.monotonic_ns())))

    @property
    def runtime(self) -> LoopRuntime:
        """The runtime of the background work."""
        return self._open().runtime

    def spawn(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        """Runs work that outlives its block in the background. `close` waits for it, for one deadline at most."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def opening(self) -> Callable[[], None]:
        """Notes that an elicitation is being opened, until the returned function is called. `close` waits for it, for one
        deadline at most. Raises RuntimeError if the client is being closed.
        """
        self.check_opening()
        over = asyncio.get_running_loop().create_future()
        self._background.add(over)
        over.add_done_callback(self._background.discard)
        return lambda: over.set_result(None)

    async def close(self) -> None:
        """Closes the connection and all that depends on it. Calling it again does nothing."""
        self._closing = True
        give_up = time.monotonic_ns() + self.deadline
        if self._opened is not None:
            # A hold that was dropped a moment ago is closed by work that the loop has not started yet.
            await asyncio.sleep(0)
        # Elicitations that are being opened are closed by work that starts later.
        while self._background and (left := give_up - time.monotonic_ns()) > 0:
            await asyncio.wait(self._background, timeout=to_seconds(left))
        for dependent in list(self.dependents):
            dependent.close()
        self._closed = True
        for controller in self.controllers.values():
            controller.close()
        self.controllers.clear()
        if self.spec.asking is not None:
            self.spec.asking.close()
        opened, self._opened = self._opened, None
        if opened is not None:
            channel = opened.route.channel
            await opened.runtime.close()
            if channel is not None and self.spec.can_open_more:
                await channel.close()

    def check_opening(self) -> None:
        """Raises RuntimeError if the client is being closed: then no hold is opened any more."""
        if self._closing:
            raise RuntimeError(_CLOSED)

    def check(self) -> None:
        """Raises RuntimeError if the connection is closed."""
        if self._closed:
            raise RuntimeError(_CLOSED)

    def _open(self) -> _Opened:
        self.check()
        if self._opened is None:
            self._opened = _Opened(self)
        elif self._opened.loop is not asyncio.get_running_loop():
            raise RuntimeError("this pausewatch client belongs to another event loop: make one for each")
        return self._opened

    def _raise_if_only_closed(self) -> None:
        """Raises RuntimeError if the call was cancelled because its channel was closed, not because its task was cancelled."""
        task = asyncio.current_task()
        if self._closed and task is not None and not task.cancelling():
            raise RuntimeError(_CLOSED) from None

    def __del__(self) -> None:
        # The client is garbage-collected. Also called when the constructor has raised.
        if (opened := getattr(self, "_opened", None)) is not None:
            opened.runtime.submit(opened.runtime.stop)
        if (spec := getattr(self, "spec", None)) is not None and spec.asking is not None:
            spec.asking.close()
