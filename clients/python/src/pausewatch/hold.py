"""An elicitation that a program keeps open: renewed while the block runs, and closed however the block ends.

1. If opening is cancelled or interrupted, the elicitation is closed in the background, or never opened; its lease bounds it.
2. A renewal is sent after each third of the ttl, until the server reports that the elicitation is closed, or the hold is
   released.
3. All decrements of one hold have the same request id: however often a release is tried, it counts once and returns the
   first answer (G4).
4. The lease bounds the effect of every failure here (G2).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import weakref
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from ._hold.lease import ENDED_BY, Lease, LeaseRecord
from ._hold.renewal import Renewal
from ._io import calls
from ._io.durations import Nanos, Seconds, read_nanos, to_wait
from ._io.signal import Signal
from ._io.workers import Wake
from .errors import CallError, ConfigError, InvalidField, PausewatchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ._io.async_connection import AsyncConnection
    from ._io.calls import Call
    from ._io.connection import Connection
    from ._io.runtime import Dependent, Runtime
    from .messages import Decremented, Elicitation, Incremented

__all__ = ["AsyncHold", "Ending", "Hold", "Lease", "Release"]

_logger = logging.getLogger("pausewatch")

DEFAULT_TTL: Seconds = 30.0
"""Long enough to survive two lost renewals and a restart of the server, short enough that the thread resumes soon after a
crash of the holder."""


class Ending(Enum):
    """How an elicitation ended, as its release found it."""

    CLOSED = "closed"
    """The elicitation was open until this release closed it."""
    EXPIRED = "expired"
    """Its lease had already ended: the person's answer came late, and commands of the thread may have timed out."""
    RELEASED = "released"
    """A decrement of another caller had already closed it."""
    UNKNOWN = "unknown"
    """The server does not know the elicitation: it lost its state, or forgot the elicitation after some time."""
    NOT_OPEN = "not_open"
    """There was nothing to release: a best-effort hold that could not be opened."""


@dataclass(frozen=True, slots=True)
class Release:
    """The result of a release: how the elicitation ended, and the new state of the thread."""

    ending: Ending
    """How the elicitation ended."""
    count: int | None = None
    """The number of open elicitations that remain on the thread; None unless this release closed the elicitation."""
    revision: int | None = None
    """The revision of the thread after the release; None unless this release closed the elicitation."""


class _Connection(Protocol):
    @property
    def deadline(self) -> Nanos: ...
    @property
    def dependents(self) -> weakref.WeakSet[Dependent]: ...
    @property
    def runtime(self) -> Runtime: ...


_ConnectionT = TypeVar("_ConnectionT", bound=_Connection)


class _Hold(Generic[_ConnectionT]):
    """The common parts of both kinds of hold: everything except waiting."""

    def __init__(
        self,
        connection: _ConnectionT,
        thread_id: str | None,
        reason: str,
        holder: str | None,
        ttl: Seconds,
        best_effort: bool,
    ) -> None:
        """`thread_id` None: no thread is named, so the hold cannot be opened."""
        holder = this_program() if holder is None else holder
        self._increment = calls.increment(thread_id or "", reason=reason, holder=holder, ttl=ttl)
        self._has_thread = thread_id is not None
        self._best_effort = best_effort
        self._failure: PausewatchError | None = None
        self._connection = connection
        self._ttl = ttl
        # Checked here: None would open an elicitation with the server's ttl, whose renewals could not be scheduled.
        self._ttl_nanos = read_nanos("ttl", ttl)
        self._opened: Incremented | None = None
        self._release: Release | None = None
        self._late: CallError | None = None
        # Whether opening was interrupted.
        self._given_up = False

    @property
    def opened(self) -> Incremented:
        """The result of the increment.

        Raises RuntimeError before the hold is open, and if a best-effort hold could not be opened: see `failure`.
        """
        if self._failure is not None:
            raise RuntimeError(f"this best-effort hold could not be opened: {self._failure}")
        if self._opened is None:
            raise RuntimeError("this hold is not open: use it in a with block, or call open()")
        return self._opened

    @property
    def failure(self) -> PausewatchError | None:
        """The error, if a best-effort hold could not be opened. None: the hold is open, or `open` was not called yet.

        If it is transient, the thread may be paused until the lease ends: perhaps only the answer was lost.
        """
        return self._failure

    @property
    def elicitation(self) -> Elicitation:
        """The elicitation as it was opened."""
        return self.opened.elicitation

    @property
    def lease(self) -> Lease:
        """The present state of the lease, as far as it is known."""
        if self._failure is not None:
            return Lease.NOT_OPEN
        self._check_open()
        return self._renewal.lease()

    def _check_open(self) -> None:
        self.opened  # noqa: B018  # Raises if the hold is not open.

    def _check_unopened(self) -> None:
        if self._opened is not None or self._failure is not None or self._given_up:
            raise RuntimeError("this hold was opened before; make a new one for a new question")

    def _continues_without_hold(self, error: PausewatchError | None = None) -> bool:
        """Whether the block runs although nothing is paused. `error` None: no call was sent yet."""
        if error is None and not self._has_thread:
            error = ConfigError("no thread: name one with thread_id or PAUSEWATCH_THREAD_ID")
        if error is None or not self._best_effort or isinstance(error, InvalidField):
            return False
        _logger.warning("the thread is not paused, going on without a hold: %s", error)
        self._failure, self._release = error, Release(Ending.NOT_OPEN)
        return True

    def _begin(self, opened: Incremented, sent: Nanos, changed: Callable[[], None]) -> None:
        runtime = self._runtime = self._connection.runtime
        timeout = min(self._connection.deadline, self._ttl_nanos // 3)
        elicitation = opened.elicitation
        record = LeaseRecord(self._ttl_nanos, sent, runtime.now())
        self._renewal = runtime.do(lambda: Renewal(runtime, elicitation, record, timeout, changed))
        self._connection.dependents.add(self._renewal)
        self._decrement = _decrement(elicitation)
        self._opened = opened

    def _on_decremented(self, answer: Decremented | CallError) -> Release:
        """Reads the answer to a decrement. Raises it if the elicitation may still be open."""
        if not isinstance(answer, CallError):
            release, lease = Release(Ending.CLOSED, answer.count, answer.revision), Lease.RELEASED
        elif (ended := ENDED_BY.get(type(answer))) is not None:
            release, lease = Release(Ending[ended.name]), ended
            self._late = answer
        else:
            raise answer
        self._stop(lease)
        self._release = release
        return release

    def _stop(self, lease: Lease) -> None:
        self._runtime.do(partial(self._renewal.stop, lease))


class _Closing:
    """Closes, in the background, the elicitation of a hold that was garbage-collected open or could not be released. Does not
    refer to the hold.
    """

    def __init__(
        self, connection: Connection, runtime: Runtime, renewal: Renewal, decrement: Call[Decremented], ttl: Seconds
    ) -> None:
        self._connection = connection
        self._runtime = runtime
        self._renewal = renewal
        self._decrement = decrement
        self._ttl = ttl

    def start(self) -> None:
        """Has it done on another thread."""
        self._connection.unsettled.add(self)
        self._connection.start(self)

    def __call__(self) -> None:
        try:
            self._runtime.do(partial(self._renewal.stop, Lease.RELEASED))
            # After one ttl without a renewal the lease has ended: there is nothing left to close.
            with contextlib.suppress(CallError, RuntimeError):
                self._connection.send(self._decrement, self._ttl, persistent=True)
        finally:
            self._connection.unsettled.discard(self)


class Hold(_Hold["Connection"]):
    """An elicitation that pauses its thread while a `with` block runs. Made by `Client.hold`.

    Leaving the block closes it. If it was already closed, by the end of its lease or by another caller, leaving raises
    ElicitationExpired, ElicitationReleased or ElicitationUnknown. If the block itself raises, its own error is raised, with a
    note. After a `release` inside the block, which returns the same information, leaving raises nothing.
    """

    def __init__(
        self,
        connection: Connection,
        thread_id: str | None,
        reason: str,
        holder: str | None,
        ttl: Seconds,
        best_effort: bool,
    ) -> None:
        super().__init__(connection, thread_id, reason, holder, ttl, best_effort)
        self._changed = Wake()
        self._opening = threading.Lock()
        self._releasing = threading.Lock()
        # Whether the increment may have been sent.
        self._sent = False

    def open(self) -> Self:
        """Opens the elicitation and starts its renewals; a `with` block calls this by itself.

        Raises InvalidField, TooManyElicitations, LimitExceeded: nothing is open. TransientError and others: the elicitation may
        be open, and its lease bounds it. If another exception interrupts the call (KeyboardInterrupt, or any that a signal
        handler raises), the elicitation is not opened, or is closed in the background, and this hold cannot be used any more.
        """
        self._check_unopened()
        if self._continues_without_hold():
            return self
        connection = self._connection
        connection.check_opening()
        give_up = self._give_up
        try:
            connection.unsettled.add(give_up)
            connection.run_in_background(self._open)
        except CallError as error:
            connection.unsettled.discard(give_up)
            if self._continues_without_hold(error):
                return self
            raise
        except BaseException:
            connection.put(give_up)
            raise
        connection.unsettled.discard(give_up)
        return self

    def _open(self) -> None:
        connection = self._connection
        with self._opening:
            if self._given_up:
                return
            self._sent = True
        runtime = connection.runtime
        sent = runtime.now()
        opened = connection.send(self._increment)
        connection.check_opening()
        with self._opening:
            if self._given_up:
                return
            self._begin(opened, sent, self._changed.fire)
            self._closing = _Closing(connection, runtime, self._renewal, self._decrement, self._ttl)
            self._dropped = weakref.finalize(self, runtime.submit, self._closing.start)
            self._dropped.atexit = False

    def _give_up(self) -> None:
        """Closes the elicitation after an interrupt of `open`, which `_open` may overtake, or not."""
        connection = self._connection
        with self._opening:
            self._given_up = True
        try:
            if self._opened is not None:
                self._dropped.detach()
                self._closing()
            elif self._sent:
                with contextlib.suppress(CallError, RuntimeError):
                    # The same request id: the increment counts once, and its answer names the elicitation.
                    elicitation = connection.send(self._increment, self._ttl, persistent=True).elicitation
                    connection.send(_decrement(elicitation), self._ttl, persistent=True)
        finally:
            connection.unsettled.discard(self._give_up)

    def release(self) -> Release:
        """Closes the elicitation, and returns whether it was open until now. Calling it again returns the same result.

        Raises TransientError and others: the elicitation may still be open, and is still renewed. Call again, or leave the block:
        then the release is retried in the background, for one ttl at most. If another exception interrupts the call, the release
        goes on in the background, for one deadline at most; calling again counts once.
        """
        if self._release is not None:
            return self._release
        self._check_open()
        return self._connection.run_in_background(self._release_once)

    def _release_once(self) -> Release:
        with self._releasing:
            if self._release is not None:
                return self._release
            answer: Decremented | CallError
            self._connection.unsettled.add(self._release_once)
            try:
                answer = self._connection.send(self._decrement)
            except CallError as error:
                answer = error
            finally:
                self._connection.unsettled.discard(self._release_once)
            release = self._on_decremented(answer)
            self._dropped.detach()
            return release

    def lost(self, timeout: Seconds | None = None) -> Lease:
        """Waits until the lease is not held any more, and returns its state; HELD: the timeout passed.

        An overdue lease may be held again later; see `lease`.
        """
        if self._failure is not None:
            return Lease.NOT_OPEN
        self._check_open()
        self._changed.wait_for(lambda: self._renewal.lease() is not Lease.HELD, to_wait(timeout))
        return self._renewal.lease()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._release is not None:
            return
        closing, unsettled = self._closing, self._connection.unsettled
        try:
            unsettled.add(closing)
            self.release()
        except BaseException as problem:
            self._connection.put(closing)
            self._dropped.detach()
            _raise_or_note(problem, error)
        else:
            unsettled.discard(closing)
            _raise_or_note(self._late, error)


class AsyncHold(_Hold["AsyncConnection"]):
    """An elicitation that pauses its thread while an `async with` block runs. Made by `AsyncClient.hold`.

    Leaving the block does the same as with `Hold`. A task that is cancelled in the block still closes the elicitation before it
    leaves the block, which takes one deadline at most.
    """

    async def open(self) -> Self:
        """Opens the elicitation and starts its renewals; an `async with` block calls this by itself.

        Raises the errors of `Hold.open`. If the task is cancelled, the elicitation is closed in the background.
        """
        self._check_unopened()
        if self._continues_without_hold():
            return self
        runtime = self._connection.runtime
        sent = runtime.now()
        end = self._connection.opening()
        opening = self._connection.spawn(self._connection.run(self._increment))
        try:
            opened = await asyncio.shield(opening)
            self._connection.check_opening()
        except CallError as error:
            if self._continues_without_hold(error):
                return self
            raise
        except BaseException:
            self._connection.spawn(_close_when_open(self._connection, opening, self._ttl))
            raise
        finally:
            end()
        self._changed = Signal()
        self._releasing = asyncio.Lock()
        self._begin(opened, sent, self._changed.fire)
        connection, decrement, ttl = self._connection, self._decrement, self._ttl
        close = partial(_spawn_close, connection, decrement, ttl)
        self._dropped = weakref.finalize(self, runtime.submit, partial(_close_abandoned, self._renewal, close))
        self._dropped.atexit = False
        return self

    async def release(self) -> Release:
        """Closes the elicitation, as `Hold.release` does. If the task is cancelled, the elicitation may be closed; a later
        release still counts once.
        """
        if self._release is not None:
            return self._release
        self._check_open()
        async with self._releasing:
            if self._release is not None:
                return self._release
            answer: Decremented | CallError
            try:
                # Not in this task, so that a client that is closed meanwhile waits for the call.
                answer = await self._connection.spawn(self._connection.run(self._decrement))
            except CallError as error:
                answer = error
            release = self._on_decremented(answer)
            self._dropped.detach()
            return release

    async def lost(self) -> Lease:
        """Waits until the lease is not held any more, and returns its state. An overdue lease may be held again later."""
        if self._failure is not None:
            return Lease.NOT_OPEN
        self._check_open()
        while (lease := self._renewal.lease()) is Lease.HELD:
            await self._changed.wait()
        return lease

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._release is not None:
            return
        try:
            await self.release()
        except BaseException as problem:
            self._dropped()
            _raise_or_note(problem, error)
        else:
            _raise_or_note(self._late, error)


def _close_abandoned(renewal: Renewal, close: Callable[[], object]) -> None:
    """Closes the elicitation of a hold that was garbage-collected open, or could not be released. Does not refer to the hold."""
    renewal.stop(Lease.RELEASED)
    close()


def _spawn_close(connection: AsyncConnection, decrement: Call[Decremented], ttl: Seconds) -> None:
    connection.spawn(_close_async(connection, decrement, ttl))


async def _close_async(connection: AsyncConnection, decrement: Call[Decremented], ttl: Seconds) -> None:
    with contextlib.suppress(CallError, RuntimeError):
        await connection.run(decrement, ttl, persistent=True)


async def _close_when_open(connection: AsyncConnection, opening: asyncio.Task[Incremented], ttl: Seconds) -> None:
    with contextlib.suppress(CallError, RuntimeError):
        elicitation = (await opening).elicitation
        await _close_async(connection, _decrement(elicitation), ttl)


def _decrement(elicitation: Elicitation) -> Call[Decremented]:
    return calls.decrement(elicitation.thread_id, elicitation_id=elicitation.elicitation_id)


def _raise_or_note(problem: BaseException | None, error: BaseException | None) -> None:
    """Raises the problem of the release. If the block has raised an error, adds the problem to that error as a note instead."""
    if problem is None:
        return
    if error is None or not isinstance(problem, Exception):
        raise problem
    error.add_note(f"pausewatch: {type(problem).__name__}: {problem}")


def this_program() -> str:
    """The name of this program and its process id; always less than the allowed 256 bytes."""
    name = PurePath(sys.argv[0] if sys.argv else "").name.encode("utf-8", "replace").decode()
    name = "".join(character for character in name if character.isprintable())[:50]
    return f"{name or 'python'}[{os.getpid()}]"
