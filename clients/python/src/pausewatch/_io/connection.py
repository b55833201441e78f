"""The connection of a synchronous client: calls with retries, its runtime, and background work that outlives a block.

The channel connects at the first call, and reconnects whenever the connection is lost. The threads of the runtime start
when the first hold, watch or stopwatch needs them. Calls go out on other threads than those of the callers: see `workers`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import grpc

from ..errors import Unavailable
from . import status, tokens
from .channel import channel_spec
from .durations import Nanos, Seconds, to_deadline, to_seconds
from .retry import Attempts
from .route import ANSWER_TIMEOUT, MAX_MOVE_DELAY, Route
from .threads import ThreadRuntime
from .workers import Wake, Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._stopwatch.controller import Controller
    from ..config import Config
    from .calls import Answer, Call
    from .runtime import Dependent

_Result = TypeVar("_Result")

_CLOSED = "this pausewatch client is closed"
_LOOK_SECONDS = 0.002
"""How often `close` looks whether the elicitations that it waits for are closed: they are rare, and each may end anywhere."""


def _close_later(channel: grpc.Channel) -> None:
    """Closes the channel when nothing uses it any more: its calls have ended, and its streams have moved."""
    timer = threading.Timer(to_seconds(ANSWER_TIMEOUT + MAX_MOVE_DELAY), channel.close)
    timer.daemon = True
    timer.start()


class Connection:
    """Shared by a client and everything that it made. Closed with the client, or when the last of them is garbage-collected."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.deadline = to_deadline(config.deadline)
        self.dependents: weakref.WeakSet[Dependent] = weakref.WeakSet()
        # The key is the disconnect grace.
        self.controllers: dict[Nanos, Controller] = {}
        self._spec = channel_spec(config)
        self._route = Route(len(self._spec.targets), self._spec.open, _close_later)
        self._process = os.getpid()
        self._closing = False
        self._closed = False
        # A signal handler may use the client while its thread has the lock.
        self._lock = threading.RLock()
        self._runtime: ThreadRuntime | None = None
        self._workers = Workers()
        self._close_ended = False
        self._on_close_ended = Wake()
        self.unsettled: set[object] = set()
        """What may have to close an elicitation. `close` waits until it is empty, for one deadline at most."""
        self.put = self._workers.put
        """Runs work in the background; a single call that nothing can interrupt."""

    def run(self, call: Call[Answer], deadline: Seconds | None = None) -> Answer:
        """Sends the call until it is answered or refused, or its deadline has passed.

        If a signal handler raises an exception meanwhile, the call goes on in the background, and its answer is dropped.
        """
        timeout = self.deadline if deadline is None else to_deadline(deadline)
        began = time.monotonic_ns()
        return self.run_in_background(partial(self._send, call, timeout, began, self.config.retries))

    def run_in_background(self, work: Callable[[], _Result]) -> _Result:
        """Runs work on another thread, and waits for it. If this is interrupted, the work goes on."""
        self.check()
        return self._workers.run(work)

    def send(self, call: Call[Answer], deadline: Seconds | None = None, *, persistent: bool = False) -> Answer:
        """Does the same as `run` on this thread, which is one of the library. `persistent`: retries without a limit."""
        timeout = self.deadline if deadline is None else to_deadline(deadline)
        return self._send(call, timeout, time.monotonic_ns(), None if persistent else self.config.retries)

    def _send(self, call: Call[Answer], timeout: Nanos, began: Nanos, retries: int | None) -> Answer:
        attempts = Attempts(timeout, began, retries, self._route)
        while True:
            self.check()
            if self._spec.asking is None:
                token = None
            else:
                asked, left = self._spec.asking.ask(), max(0, began + timeout - time.monotonic_ns())
                try:
                    token = asked.result(min(to_seconds(left), threading.TIMEOUT_MAX))
                except TimeoutError:
                    raise tokens.late(timeout) from None
                self.check()
            metadata = self._spec.metadata(token)
            stub, limit = attempts.begin(time.monotonic_ns())
            send = getattr(stub, call.method)
            try:
                response = send(
                    call.request, timeout=to_seconds(limit), metadata=metadata, wait_for_ready=attempts.wait_for_ready
                )
            except grpc.RpcError as failure:
                error = status.read(failure, self._spec.address)
            except ValueError:
                # The channel was closed after the check.
                self.check()
                raise
            else:
                return call.read(response)
            now = time.monotonic_ns()
            try:
                delay = attempts.retry_delay(error, now)
            except Unavailable:
                if self._spec.can_open_more and not self._route.has_several:
                    self._route.replace(attempts.moves, now)
                raise
            time.sleep(to_seconds(delay))

    @property
    def runtime(self) -> ThreadRuntime:
        """The runtime of the background work."""
        self.check()
        with self._lock:
            if self._runtime is None:
                self._runtime = ThreadRuntime(self._route, self._spec)
            return self._runtime

    def start(self, work: Callable[[], object]) -> None:
        """Runs work in the background."""
        self._workers.start(work)

    def check_opening(self) -> None:
        """Raises RuntimeError if the client is being closed: then no hold is opened any more."""
        if self._closing:
            raise RuntimeError(_CLOSED)

    def check(self) -> None:
        """Raises RuntimeError if the connection is closed, or belongs to the parent of this forked process."""
        if self._closed:
            raise RuntimeError(_CLOSED)
        if self._is_foreign:
            raise RuntimeError("this pausewatch client was made before the fork: make one in each process")

    @property
    def _is_foreign(self) -> bool:
        return os.getpid() != self._process

    def close(self) -> None:
        """Closes the connection and all that depends on it. Calling it again does nothing. In a forked child only this object is
        closed: the rest belongs to the parent.
        """
        if self._is_foreign:
            self._closed = True
            return
        with self._lock:
            runtime, begins = self._runtime, not self._closing
            if begins and not sys.is_finalizing():
                self._workers.start(self._close)
            self._closing = True
        if begins and sys.is_finalizing():
            self._close()
        # Also if an earlier call was interrupted: the work goes on. Not in a destructor that a thread of the runtime runs: the
        # work needs its lock.
        if runtime is None or not runtime.is_locked_here:
            self._on_close_ended.wait_for(lambda: self._close_ended, None)

    def _close(self) -> None:
        try:
            self._close_everything()
        finally:
            self._close_ended = True
            self._on_close_ended.fire()

    def _close_everything(self) -> None:
        give_up = time.monotonic_ns() + self.deadline
        with self._lock:
            runtime = self._runtime
        if runtime is not None:
            # A hold that was dropped a moment ago is closed by work that the runtime has not started yet.
            runtime.run_submitted(self.deadline)
        while self.unsettled and time.monotonic_ns() < give_up:
            time.sleep(_LOOK_SECONDS)
        for dependent in list(self.dependents):
            dependent.close()
        self._closed = True
        with self._lock:
            runtime, self._runtime = self._runtime, None
        if runtime is not None:
            with runtime.lock:
                for controller in self.controllers.values():
                    controller.close()
            runtime.close()
        if self._spec.asking is not None:
            self._spec.asking.close()
        if self._spec.can_open_more:
            assert self._route.channel is not None
            self._route.channel.close()
        self._workers.end()

    def __del__(self) -> None:
        # The client is garbage-collected. Also called when the constructor has raised.
        if (workers := getattr(self, "_workers", None)) is not None:
            workers.end()
        if (runtime := getattr(self, "_runtime", None)) is not None:
            runtime.submit(runtime.stop)
        if (spec := getattr(self, "_spec", None)) is not None and spec.asking is not None:
            spec.asking.close()
