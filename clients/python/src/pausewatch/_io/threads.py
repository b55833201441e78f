"""The runtime of the synchronous client: one thread for all timers, and two for each open stream (one of them is gRPC's own,
which sends the requests).

1. The timers are guarded by the lock. The thread waits on its inbox, to which a destructor may add at any moment.
2. All threads are daemons: a process can end with an open client.
3. Callbacks of the user run on a thread of their own, so that a slow one delays no renewal and no stopwatch.
4. No exception ends a thread, not even SystemExit: it would end only this thread, silently, and everything that depends on the
   thread would stop.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
import sys
import threading
import time
import weakref
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

import grpc

from ..errors import CallError, DeadlineExceeded, Unavailable
from ..v1 import elicitation_service_pb2_grpc as pb_grpc
from . import status, tokens
from .durations import SECOND, Nanos, to_seconds
from .route import ANSWER_TIMEOUT
from .workers import Job, start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from ..v1 import elicitation_service_pb2 as pb
    from .calls import Answer, Call
    from .channel import ChannelSpec
    from .route import Route

_Result = TypeVar("_Result")

_logger = logging.getLogger("pausewatch")

_MAX_SLEEP: Nanos = 3_600 * SECOND
"""Waits of the operating system have a limit; after this time the timers are checked again."""
_MAX_CANCELLED_TIMERS_KEPT = 64
"""Up to this number of timers, cancelled ones are kept until they are due."""
_JOIN_SECONDS = 2.0
_LOOK_SECONDS = 0.05
"""How often a caller looks whether the thread that should do its work has ended."""
_MAX_FORK_DELAY_SECONDS = 1.0
"""How long a fork waits for the threads of all runtimes."""


class ThreadRuntime:
    """Implements `runtime.Runtime`."""

    def __init__(self, route: Route[grpc.Channel], spec: ChannelSpec) -> None:
        self.lock = threading.RLock()
        self.route = route
        self._spec = spec
        self._process = os.getpid()
        self._closed = False
        self._closing = False
        self._timer_users = 0
        self._numbers = itertools.count()
        self._timers: list[tuple[Nanos, int, _Task]] = []
        self._cancelled_timers = 0
        self._streams: dict[_Stream, threading.Thread] = {}
        self._inbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._deferred: SimpleQueue[Callable[[], object] | None] | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        start_thread(self._run, "pausewatch")
        _runtimes.add(self)

    @property
    def is_foreign(self) -> bool:
        return os.getpid() != self._process

    def is_at_rest(self) -> bool:
        """Whether its threads wait, so that none of them holds a lock of gRPC's core."""
        frames = sys._current_frames()  # noqa: SLF001 # There is no other way to see where a thread is.
        own = [self._thread, *self._streams.values()]
        return all(
            frame.f_code in _WAITING
            for thread in own
            if thread is not None and (frame := frames.get(thread.ident or 0)) is not None
        )

    def now(self) -> Nanos:
        return time.monotonic_ns()

    def call_at(self, when: Nanos, run: Callable[[], object]) -> _Task:
        with self.lock:
            timer = _Task(run, self._timer_cancelled)
            earliest = not self._timers or when < self._timers[0][0]
            heapq.heappush(self._timers, (when, next(self._numbers), timer))
            if earliest and threading.current_thread() is not self._thread:
                self._inbox.put(_nothing)
            return timer

    @property
    def is_locked_here(self) -> bool:
        """Whether this thread has the lock."""
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]  # noqa: SLF001  # `threading.Condition` uses it too.

    def do(self, work: Callable[[], _Result]) -> _Result:
        # At the end of the process its threads stand still.
        if self._closed or self.is_foreign or self.is_locked_here or sys.is_finalizing():
            with self.lock:
                return work()
        job = Job(work)
        self._inbox.put(job.run)
        while True:
            try:
                return job.wait(_LOOK_SECONDS)
            except Empty:
                if self._ended:
                    with self.lock:
                        job.run()

    def submit(self, run: Callable[[], object]) -> None:
        # A forked child has no thread that could run it.
        if not self._closed and not self.is_foreign:
            self._inbox.put(run)

    def run_submitted(self, timeout: Nanos) -> None:
        """Waits until everything that was submitted before has run, for `timeout` at most."""
        if not self._closed and threading.current_thread() is not self._thread:
            done: SimpleQueue[None] = SimpleQueue()
            self.submit(lambda: done.put(None))
            with contextlib.suppress(Empty):
                done.get(timeout=min(to_seconds(timeout), threading.TIMEOUT_MAX))

    def defer(self, callback: Callable[[], object]) -> None:
        with self.lock:
            if self._deferred is None:
                self._deferred = SimpleQueue()
                start_thread(partial(_run_deferred, self._deferred), "pausewatch-callbacks")
            self._deferred.put(callback)
            if self._closed:
                self._end_deferred()

    def keep_timers(self) -> None:
        self._timer_users += 1

    def release_timers(self) -> None:
        self._timer_users -= 1
        if self._closing and self._timer_users == 0:
            self.stop()

    @property
    def has_token_source(self) -> bool:
        return self._spec.asking is not None

    def next_token(self, done: Callable[[str | CallError], None]) -> _Task:
        assert self._spec.asking is not None
        asked = self._spec.asking.ask()
        task = _Task(lambda: done(_outcome(asked)), _nothing)
        asked.add_done_callback(lambda _: self.submit(task.run))
        return task

    def unary(self, call: Call[Answer], timeout: Nanos, done: Callable[[Answer | CallError], None]) -> _Unary:
        unary, give_up = _Unary(), self.now() + timeout
        if self._spec.asking is None:
            unary.step = self._send(call, None, timeout, give_up, done)
            return unary

        def late() -> None:
            asking.cancel()
            done(tokens.late(timeout))

        def asked(token: str | CallError) -> None:
            alarm.cancel()
            if isinstance(token, CallError):
                done(token)
            else:
                unary.step = self._send(call, token, timeout, give_up, done)

        def stop() -> None:
            asking.cancel()
            alarm.cancel()

        alarm = self.call_at(give_up, late)
        asking = self.next_token(asked)
        unary.step = _Task(_nothing, stop)
        return unary

    def _send(
        self, call: Call[Answer], token: str | None, timeout: Nanos, give_up: Nanos, done: Callable[[Answer | CallError], None]
    ) -> _Task:
        metadata = self._spec.metadata(token)
        moves, stub = self.route.now
        send = getattr(stub, call.method).future
        left = max(0, give_up - self.now())
        limit = min(left, ANSWER_TIMEOUT, timeout // 2) if self.route.has_several else left
        wait = not self.route.has_several
        future: grpc.Future[object] = send(call.request, timeout=to_seconds(limit), metadata=metadata, wait_for_ready=wait)

        def over() -> None:
            answer: Answer | CallError
            try:
                answer = call.read(future.result())
            except grpc.RpcError as failure:
                answer = status.read(failure, self._spec.address)
            except Exception as failure:
                answer = status.unexpected(failure)
            # A replica to which the token source left less time is not at fault.
            if isinstance(answer, Unavailable) or (isinstance(answer, DeadlineExceeded) and limit < left):
                self.route.move_on(moves)
            done(answer)

        task = _Task(over, future.cancel)
        future.add_done_callback(lambda _: self.submit(task.run))
        return task

    def stream(
        self,
        token: str | None,
        on_message: Callable[[pb.WatchResponse], None],
        on_end: Callable[[CallError], None],
        *,
        own_connection: bool,
    ) -> _Stream:
        moves, shared = self.route.now
        channel = self._spec.open(moves) if own_connection and self._spec.can_open_more else None
        stub = shared if channel is None else pb_grpc.ElicitationServiceStub(channel)
        stream = _Stream(stub, self._spec.metadata(token), on_message, on_end, self.lock, channel, moves)
        thread = threading.Thread(target=self._read, args=(stream,), name="pausewatch-watch", daemon=True)
        with self.lock:
            thread.start()
            self._streams[stream] = thread
        return stream

    def stop(self) -> list[threading.Thread]:
        """Stops everything; no callback runs afterwards. Returns the threads that are ending."""
        with self.lock:
            self._closed = True
            ending = [*self._end_streams(), *([] if self._thread is None else [self._thread])]
            self._timers.clear()
            self._end_deferred()
            self._inbox.put(_nothing)
            return ending

    def close(self) -> None:
        """Ends the streams; timers run until the last `release_timers`. Waits for the threads that end now."""
        with self.lock:
            self._closing = True
            ending = self._end_streams() if self._timer_users else self.stop()
        for thread in ending:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)

    def _end_streams(self) -> list[threading.Thread]:
        for stream in self._streams:
            stream.cancel()
        return list(self._streams.values())

    def _end_deferred(self) -> None:
        if self._deferred is not None:
            self._deferred.put(None)
            self._deferred = None

    def _run(self) -> None:
        self._thread = threading.current_thread()
        try:
            self._run_until_closed()
        finally:
            self._ended = True

    def _run_until_closed(self) -> None:
        while not self._closed:
            try:
                run = self._inbox.get(timeout=to_seconds(self._run_due_timers()))
            except Empty:
                continue
            with self.lock:
                if not self._closed:
                    _guarded(run)

    def _run_due_timers(self) -> Nanos:
        """Runs the timers that are due. Returns the time until the next one."""
        with self.lock:
            while self._timers:
                wait = self._timers[0][0] - self.now()
                if wait > 0:
                    return min(wait, _MAX_SLEEP)
                _, _, timer = heapq.heappop(self._timers)
                _guarded(timer.run)
            return _MAX_SLEEP

    def _timer_cancelled(self) -> None:
        self._cancelled_timers += 1
        if len(self._timers) > _MAX_CANCELLED_TIMERS_KEPT and self._cancelled_timers > len(self._timers) // 2:
            self._timers = [entry for entry in self._timers if not entry[2].is_over]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _read(self, stream: _Stream) -> None:
        try:
            for response in stream.begin():
                with self.lock:
                    stream.wait_until_reading()
                    if stream.is_open:
                        stream.on_message(response)
            error: CallError = Unavailable.of("the watch ended")
        except grpc.RpcError as failure:
            error = status.read(failure, self._spec.address)
        except BaseException as failure:
            error = status.unexpected(failure)
        stream.end()
        with self.lock:
            self._streams.pop(stream, None)
            if stream.is_open:
                stream.is_open = False
                stream.on_end(error)


class _Task:
    """Runs a function once, unless it is cancelled before. Guarded by the lock."""

    __slots__ = ("_run", "_when_cancelled")

    def __init__(self, run: Callable[[], object], when_cancelled: Callable[[], object]) -> None:
        self._run: Callable[[], object] | None = run
        self._when_cancelled = when_cancelled

    @property
    def is_over(self) -> bool:
        return self._run is None

    def run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run()

    def cancel(self) -> None:
        if self._run is not None:
            self._run = None
            self._when_cancelled()


class _Stream:
    """One stream of the RPC `Watch`; `channel`: its own channel, if it has one."""

    def __init__(
        self,
        stub: pb_grpc.ElicitationServiceStub,
        metadata: tuple[tuple[str, str], ...],
        on_message: Callable[[pb.WatchResponse], None],
        on_end: Callable[[CallError], None],
        lock: threading.RLock,
        channel: grpc.Channel | None,
        moves: int,
    ) -> None:
        self.moves = moves
        self._stub = stub
        self._metadata = metadata
        self._requests: SimpleQueue[pb.WatchRequest | None] = SimpleQueue()
        self._channel = channel
        self._responses: Iterable[pb.WatchResponse] | None = None
        self.on_message = on_message
        self.on_end = on_end
        self.is_open = True
        self._reading_stopped = False
        self._changed = threading.Condition(lock)

    def begin(self) -> Iterable[pb.WatchResponse]:
        """Makes the call, unless the stream is cancelled before."""
        with self._changed:
            if not self.is_open:
                return ()
            self._responses = self._stub.Watch(iter(self._requests.get, None), metadata=self._metadata)
            return self._responses

    def send(self, request: pb.WatchRequest) -> None:
        self._requests.put(request)

    def end(self) -> None:
        """Ends its requests and closes its own channel."""
        self._requests.put(None)
        if self._channel is not None:
            self._channel.close()

    def stop_reading(self) -> None:
        self._reading_stopped = True

    def resume_reading(self) -> None:
        self._reading_stopped = False
        self._notify()

    def wait_until_reading(self) -> None:
        self._changed.wait_for(lambda: not (self._reading_stopped and self.is_open))

    def cancel(self) -> None:
        self.is_open = False
        self._notify()
        if self._responses is not None:
            self._responses.cancel()  # type: ignore[attr-defined]  # The stubs type the call as its responses alone.

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class _Unary:
    """A call under way: first the question for its token, if there is a source, then the call itself."""

    step: _Task

    def cancel(self) -> None:
        self.step.cancel()


def _outcome(asked: Future[str]) -> str | CallError:
    try:
        return asked.result()
    except CallError as error:
        return error
    except BaseException as failure:
        return status.unexpected(failure)


def _guarded(run: Callable[[], object]) -> None:
    try:
        run()
    except BaseException:
        _logger.exception("an internal error of pausewatch")


def _run_deferred(queue: SimpleQueue[Callable[[], object] | None]) -> None:
    while (callback := queue.get()) is not None:
        try:
            callback()
        except BaseException:
            _logger.exception("a callback of a stopwatch failed")
        # Otherwise the variable would keep the callback alive until the next one.
        del callback


def _nothing() -> None:
    """Does nothing: it only wakes the thread, which then checks its timers."""


_WAITING = frozenset({threading.Condition.wait.__code__, ThreadRuntime._run_until_closed.__code__})  # noqa: SLF001
"""The code that a thread at rest executes: the thread of a stream waits for a message, the thread of the timers for its
inbox."""
_runtimes: weakref.WeakSet[ThreadRuntime] = weakref.WeakSet()


def _settle_before_fork() -> None:
    """Waits until the threads are at rest: gRPC's fork support closes the channels in the child, and would wait forever for a
    lock that one of these threads held during the fork. gRPC has already stopped its own threads, so no message arrives.
    """
    give_up = time.monotonic() + _MAX_FORK_DELAY_SECONDS
    while not all(runtime.is_foreign or runtime.is_at_rest() for runtime in list(_runtimes)) and time.monotonic() < give_up:
        time.sleep(0.001)


# Functions run in the reverse order of their registration. gRPC registers its function with its first channel, so that function
# runs before this one.
if sys.platform != "win32" and "GRPC_ENABLE_FORK_SUPPORT" in os.environ:
    os.register_at_fork(before=_settle_before_fork)
