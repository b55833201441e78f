"""The connection of a synchronous client: calls with retries, its runtime, and background work that outlives a block.

The channel connects at the first call, and reconnects whenever the connection is lost. The threads of the runtime start
when the first hold, watch or stopwatch needs them.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

import grpc

from ..errors import Unavailable
from . import status, tokens
from .channel import channel_spec
from .durations import Nanos, Seconds, to_deadline, to_seconds
from .retry import Attempts
from .route import ANSWER_TIMEOUT, MAX_MOVE_DELAY, Route
from .threads import ThreadRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._stopwatch.controller import Controller
    from ..config import Config
    from .calls import Answer, Call
    from .runtime import Dependent

_CLOSED = "this pausewatch client is closed"


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
        self._lock = threading.Lock()
        self._runtime: ThreadRuntime | None = None
        self._background: set[threading.Event] = set()

    def run(self, call: Call[Answer], deadline: Seconds | None = None, *, persistent: bool = False) -> Answer:
        """Sends the call until it is answered or refused, or its deadline has passed. `persistent`: retries without a limit."""
        timeout = self.deadline if deadline is None else to_deadline(deadline)
        began = time.monotonic_ns()
        retries = None if persistent else self.config.retries
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

    def spawn(self, work: Callable[[], None]) -> None:
        """Runs work that outlives its block in the background. `close` waits for it, for one deadline at most."""
        end = self.releasing()

        def run() -> None:
            try:
                work()
            finally:
                end()

        threading.Thread(target=run, name="pausewatch-close", daemon=True).start()

    def releasing(self) -> Callable[[], None]:
        """Notes that an elicitation is being opened or closed, until the returned function is called. `close` waits for it, for
        one deadline at most.
        """
        over = threading.Event()
        with self._lock:
            self._background.add(over)

        def end() -> None:
            with self._lock:
                self._background.discard(over)
            over.set()

        return end

    def opening(self) -> Callable[[], None]:
        """Does the same for an elicitation that is being opened. Raises RuntimeError if the client is being closed."""
        end = self.releasing()
        if self._closing:
            end()
        self.check_opening()
        return end

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
        give_up = time.monotonic_ns() + self.deadline
        with self._lock:
            self._closing = True
            runtime = self._runtime
        if runtime is not None:
            # A hold that was dropped a moment ago is closed by work that the runtime has not started yet.
            runtime.run_submitted(self.deadline)
        # Elicitations that are being opened are closed by work that starts later.
        while (over := self._in_background()) and over.wait(to_seconds(max(0, give_up - time.monotonic_ns()))):
            pass
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

    def _in_background(self) -> threading.Event | None:
        with self._lock:
            return next(iter(self._background), None)

    def __del__(self) -> None:
        # The client is garbage-collected. Also called when the constructor has raised.
        if (runtime := getattr(self, "_runtime", None)) is not None:
            runtime.submit(runtime.stop)
        if (spec := getattr(self, "_spec", None)) is not None and spec.asking is not None:
            spec.asking.close()
