"""Which stopwatch follows which thread, and the one watch for all of them.

1. A thread is followed for `LINGER` after its last stopwatch: the next command of the thread starts with the exact state, and
   without a request to the coordinator.
2. While no thread is followed there is no stream.
3. Stopwatches outlive their client: closing the controller stops none of them, and their threads count as running.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._io.durations import SECOND, Nanos, to_nanos
from .._watch.events import Disconnected, Event, SnapshotComplete, State
from .._watch.watching import Watching
from .link import Link, LinkReporter
from .thread_clock import ThreadClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.runtime import Cancel, Runtime
    from ..messages import PauseState

_logger = logging.getLogger("pausewatch")

LINGER: Nanos = 30 * SECOND
"""How long a thread is followed after its last stopwatch."""


@dataclass(slots=True)
class _Followed:
    clock: ThreadClock
    registered: int = 0
    forget: Cancel | None = None


class Controller:
    """Keeps the stopwatches of a client that share a disconnect grace in step with the pauses of their threads."""

    def __init__(self, runtime: Runtime, deadline: Nanos, grace: Nanos, on_link: Callable[[Link], object] | None = None) -> None:
        self._runtime = runtime
        self._link = LinkReporter(runtime, grace, on_link)
        self._grace = grace
        self._threads: dict[str, _Followed] = {}
        self._watching = Watching(runtime, deadline, self._on_event, self._on_confirmation)
        self._closed = False

    def enter(self, thread_id: str, joined: Nanos) -> ThreadClock:
        """Registers a stopwatch that follows the thread since `joined`. `thread_id` must be valid.

        The paused time of a new thread begins at `joined`, even if that is some time ago: time before its beginning is charged.
        """
        followed = self._threads.get(thread_id)
        if followed is None:
            followed = _Followed(ThreadClock(self._runtime, thread_id, self._grace, self._watching, joined))
            self._threads[thread_id] = followed
            if self._closed:
                followed.clock.close()
            else:
                self._watching.add(thread_id)
                self._watching.start()
        if followed.forget is not None:
            followed.forget.cancel()
            followed.forget = None
        followed.registered += 1
        return followed.clock

    def leave(self, thread_id: str) -> None:
        """Ends one `enter`."""
        followed = self._threads[thread_id]
        followed.registered -= 1
        if followed.registered > 0:
            return
        if self._closed:
            del self._threads[thread_id]
        else:
            followed.forget = self._runtime.call_at(self._runtime.now() + LINGER, lambda: self._forget(thread_id))

    def close(self) -> None:
        """Ends the watch; no thread is followed any more. Calling it again does nothing."""
        self._closed = True
        self._watching.close()
        self._link.close()
        for thread_id, followed in list(self._threads.items()):
            if followed.forget is not None:
                followed.forget.cancel()
                del self._threads[thread_id]
            followed.clock.close()

    def _forget(self, thread_id: str) -> None:
        del self._threads[thread_id]
        self._watching.remove(thread_id)

    def _on_event(self, event: Event) -> None:
        match event:
            case State(state):
                if (followed := self._threads.get(state.thread_id)) is not None:
                    followed.clock.apply(state)
            case SnapshotComplete():
                self._link.connected()
            case Disconnected(thread_ids, error, silent_for):
                # If the stream is open, only some threads were refused: the link is not lost.
                if self._watching.is_connected:
                    refused = ", ".join(sorted(thread_ids))
                    _logger.warning("a thread is not watched, its timeouts run without its pauses: %s: %s", refused, error)
                else:
                    self._link.disconnected(error, to_nanos(silent_for))
                for thread_id in thread_ids:
                    if (followed := self._threads.get(thread_id)) is not None:
                        followed.clock.disconnect(to_nanos(silent_for))

    def _on_confirmation(self, state: PauseState, sent_at: Nanos, watched: bool) -> None:
        if (followed := self._threads.get(state.thread_id)) is not None:
            followed.clock.confirm(state, sent_at, watched=watched)
