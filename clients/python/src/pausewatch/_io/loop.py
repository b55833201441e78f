"""The runtime of the asynchronous client: everything runs on its event loop, so there is nothing to lock."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import grpc

from ..errors import CallError, Unavailable
from . import status
from .durations import Nanos, to_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..v1 import elicitation_service_pb2 as pb
    from ..v1 import elicitation_service_pb2_grpc as pb_grpc
    from .calls import Answer, Call
    from .channel import ChannelSpec


class LoopRuntime:
    """See the module and `runtime.Runtime`."""

    def __init__(self, stub: pb_grpc.ElicitationServiceAsyncStub, spec: ChannelSpec) -> None:
        self.lock = nullcontext()
        self._loop = asyncio.get_running_loop()
        self._stub = stub
        self._metadata = spec.metadata
        # The loop itself keeps its tasks by weak references only.
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def now(self) -> Nanos:
        return time.monotonic_ns()

    def call_at(self, when: Nanos, run: Callable[[], object]) -> asyncio.TimerHandle:
        # Not the loop's own call_at: its clock may be another.
        return self._loop.call_later(to_seconds(max(0, when - self.now())), run)

    def submit(self, run: Callable[[], object]) -> None:
        # The loop may be closed, and then there is nothing left to do.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._unless_closed, run)

    def defer(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)

    def unary(self, call: Call[Answer], timeout: Nanos, done: Callable[[Answer | CallError], None]) -> asyncio.Task[None]:
        async def ask() -> None:
            send = getattr(self._stub, call.method)
            answer: Answer | CallError
            try:
                answer = call.read(
                    await send(call.request, timeout=to_seconds(timeout), metadata=self._metadata, wait_for_ready=True)
                )
            except grpc.RpcError as failure:
                answer = status.read(failure)
            done(answer)

        return self._start(ask())

    def stream(
        self,
        request: pb.WatchPauseStateRequest,
        heard: Callable[[pb.WatchPauseStateResponse], None],
        ended: Callable[[CallError], None],
        *,
        wait_for_ready: bool,
    ) -> asyncio.Task[None]:
        async def listen() -> None:
            error: CallError = Unavailable.of("the watch ended")
            try:
                responses = self._stub.WatchPauseState(request, metadata=self._metadata, wait_for_ready=wait_for_ready)
                async for response in responses:
                    heard(response)
            except grpc.RpcError as failure:
                error = status.read(failure)
            ended(error)

        return self._start(listen())

    def stop(self) -> list[asyncio.Task[None]]:
        """Ends all of it; nothing is called back afterwards. The tasks that are ending."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks

    async def close(self) -> None:
        """As `stop`, and waits for it."""
        await asyncio.gather(*self.stop(), return_exceptions=True)

    def _unless_closed(self, run: Callable[[], object]) -> None:
        if not self._closed:
            run()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
