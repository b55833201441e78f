"""The runtime of the asynchronous client: everything runs on its event loop, so no lock is needed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from ..errors import CallError, DeadlineExceeded, Unavailable
from ..v1 import elicitation_service_pb2_grpc as pb_grpc
from . import status
from .durations import Nanos, to_seconds
from .route import ANSWER_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..v1 import elicitation_service_pb2 as pb
    from .calls import Answer, Call
    from .channel import ChannelSpec
    from .route import Route

_Result = TypeVar("_Result")


class LoopRuntime:
    """Implements `runtime.Runtime`."""

    def __init__(self, route: Route[grpc.aio.Channel], spec: ChannelSpec) -> None:
        self.lock = nullcontext()
        self._loop = asyncio.get_running_loop()
        self.route = route
        self._spec = spec
        # Strong references: the loop itself has only weak references to its tasks.
        self._tasks: set[asyncio.Task[None]] = set()
        # Kept so that they can be cancelled at the end: the loop would still run them.
        self._timers: set[_Timer] = set()
        self._closed = False
        self._closing = False
        self._timer_users = 0

    @property
    def is_foreign(self) -> bool:
        # A forked child has no running event loop.
        return False

    def now(self) -> Nanos:
        return time.monotonic_ns()

    def call_at(self, when: Nanos, run: Callable[[], object]) -> _Timer:
        timer = _Timer(run, self._timers)
        if not self._closed:
            # Not the loop's own call_at: the loop may have another clock.
            timer.start(self._loop, to_seconds(max(0, when - self.now())))
        return timer

    def do(self, work: Callable[[], _Result]) -> _Result:
        return work()

    def submit(self, run: Callable[[], object]) -> None:
        # The loop may be closed; then there is nothing to do.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._unless_closed, run)

    def defer(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)

    def keep_timers(self) -> None:
        self._timer_users += 1

    def release_timers(self) -> None:
        self._timer_users -= 1
        if self._closing and self._timer_users == 0:
            self.stop()

    @property
    def has_token_source(self) -> bool:
        return self._spec.asking is not None

    def next_token(self, done: Callable[[str | CallError], None]) -> asyncio.Task[None]:
        async def ask() -> None:
            try:
                token = await self._spec.next_token(None)
            except CallError as refused:
                done(refused)
            else:
                assert token is not None
                done(token)

        return self._start(ask())

    def unary(self, call: Call[Answer], timeout: Nanos, done: Callable[[Answer | CallError], None]) -> asyncio.Task[None]:
        async def ask() -> None:
            answer: Answer | CallError
            give_up = self.now() + timeout
            moves, left, limit = 0, 0, 0
            try:
                metadata = self._spec.metadata(await self._spec.next_token(timeout))
                moves, stub = self.route.now
                send = getattr(stub, call.method)
                left = max(0, give_up - self.now())
                limit = min(left, ANSWER_TIMEOUT, timeout // 2) if self.route.has_several else left
                wait = not self.route.has_several
                answer = call.read(await send(call.request, timeout=to_seconds(limit), metadata=metadata, wait_for_ready=wait))
            except CallError as refused:
                answer = refused
            except grpc.RpcError as failure:
                answer = status.read(failure, self._spec.address)
            except Exception as failure:
                answer = status.unexpected(failure)
            # A replica to which the token source left less time, or none, is not at fault.
            if isinstance(answer, Unavailable) or (isinstance(answer, DeadlineExceeded) and limit < left):
                self.route.move_on(moves)
            done(answer)

        return self._start(ask())

    def stream(
        self,
        token: str | None,
        on_message: Callable[[pb.WatchResponse], None],
        on_end: Callable[[CallError], None],
        *,
        own_connection: bool,
    ) -> _Stream:
        stream = _Stream(self.route.now[0])

        async def listen() -> None:
            error: CallError = Unavailable.of("the watch ended")
            stream.moves = self.route.now[0]
            own = self._spec.open_async(stream.moves) if own_connection and self._spec.can_open_more else None
            sending = None
            try:
                call = self._stub_of(own).Watch(metadata=self._spec.metadata(token))
                sending = self._start(stream.send_to(call))
                async for response in call:
                    await stream.may_read.wait()
                    on_message(response)
            except grpc.RpcError as failure:
                error = status.read(failure, self._spec.address)
            except Exception as failure:
                error = status.unexpected(failure)
            finally:
                if sending is not None:
                    sending.cancel()
                if own is not None:
                    await own.close()
            on_end(error)

        stream.task = self._start(listen())
        return stream

    def stop(self) -> list[asyncio.Task[None]]:
        """Stops everything; no callback runs afterwards. Returns the tasks that are ending."""
        self._closed = True
        for timer in list(self._timers):
            timer.cancel()
        return self._end_tasks()

    async def close(self) -> None:
        """Ends calls and streams; timers run until the last `release_timers`. Waits for the tasks that end now."""
        self._closing = True
        ending = self._end_tasks() if self._timer_users else self.stop()
        await asyncio.gather(*ending, return_exceptions=True)

    def _end_tasks(self) -> list[asyncio.Task[None]]:
        # A channel of grpc.aio, even a closed one, keeps its connection until its last reference is gone.
        self.route.drop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks

    def _stub_of(self, channel: grpc.aio.Channel | None) -> pb_grpc.ElicitationServiceAsyncStub:
        # Not in a local variable: the traceback of a cancelled task would keep it alive.
        return self.route.now[1] if channel is None else pb_grpc.ElicitationServiceStub(channel)

    def _unless_closed(self, run: Callable[[], object]) -> None:
        if not self._closed:
            run()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Stream:
    """One stream of `Watch`."""

    def __init__(self, moves: int) -> None:
        self.moves = moves
        self.task: asyncio.Task[None] | None = None
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.to_send: asyncio.Queue[pb.WatchRequest] = asyncio.Queue()

    async def send_to(self, call: Any) -> None:
        """Sends the requests until it is cancelled. Not an iterator for gRPC, whose own task would outlive a call that is
        cancelled while it is being opened.
        """
        # At the end of the call, its reader gets the reason.
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            while True:
                await call.write(await self.to_send.get())

    def send(self, request: pb.WatchRequest) -> None:
        self.to_send.put_nowait(request)

    def stop_reading(self) -> None:
        self.may_read.clear()

    def resume_reading(self) -> None:
        self.may_read.set()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class _Timer:
    """Runs a function at its time; a member of `timers` until then."""

    __slots__ = ("_handle", "_run", "_timers")

    def __init__(self, run: Callable[[], object], timers: set[_Timer]) -> None:
        self._run = run
        self._timers = timers
        self._handle: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, delay: float) -> None:
        self._timers.add(self)
        self._handle = loop.call_later(delay, self._due)

    def cancel(self) -> None:
        self._timers.discard(self)
        if self._handle is not None:
            self._handle.cancel()

    def _due(self) -> None:
        self._timers.discard(self)
        self._run()
