"""Reports the changes of a controller's link to the program, and logs them.

1. Each change is reported once, in order. The grace begins with the first disconnect: there is one for all threads.
2. After the client is closed nothing is reported.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from .._io.durations import Nanos, to_seconds
from ..errors import CallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.runtime import Cancel, Runtime

_logger = logging.getLogger("pausewatch")


class LinkState(Enum):
    """The state of the link between stopwatches and the coordinator."""

    CONNECTED = "connected"
    """The state of every followed thread is known and up to date, except of threads that the coordinator refuses; a refusal
    is logged."""
    DISCONNECTED = "disconnected"
    """The state of at least one thread may be out of date: stopwatches continue with the last known one."""
    GRACE_SPENT = "grace_spent"
    """Disconnected for longer than the disconnect grace: paused threads count as running, and stopwatches that run out expire
    without a confirmation."""


@dataclass(frozen=True, slots=True)
class Link:
    """A change of the link between the stopwatches of a client and the coordinator."""

    state: LinkState
    """The new state."""
    since: float | None = None
    """When the connection was lost, by `time.monotonic()`; if it was silent for 15 s before, when its last message arrived. None:
    connected."""
    error: CallError | None = None
    """The cause. None: connected."""


class LinkReporter:
    """`on_link` None: changes are only logged."""

    def __init__(self, runtime: Runtime, grace: Nanos, on_link: Callable[[Link], object] | None) -> None:
        self._runtime = runtime
        self._grace = grace
        self._on_link = on_link
        self._lost: Link | None = None
        self._is_new = True
        self._grace_timer: Cancel | None = None

    def connected(self) -> None:
        if self._lost is not None:
            _logger.info("connected to the coordinator again")
        elif not self._is_new:
            return
        self._clear_disconnect()
        self._change(Link(LinkState.CONNECTED))

    def disconnected(self, error: CallError, silent_for: Nanos) -> None:
        if self._lost is not None:
            return
        _logger.warning("the coordinator is unreachable, timeouts continue with the last known states: %s", error)
        since = self._runtime.now() - silent_for
        self._lost = Link(LinkState.DISCONNECTED, to_seconds(since), error)
        self._change(self._lost)
        self._grace_timer = self._runtime.call_at(since + self._grace, self._on_grace_spent)

    def close(self) -> None:
        self._clear_disconnect()
        self._on_link = None

    def _on_grace_spent(self) -> None:
        if self._lost is not None:
            _logger.warning("the disconnect grace is spent, paused threads count as running: %s", self._lost.error)
            self._change(Link(LinkState.GRACE_SPENT, self._lost.since, self._lost.error))

    def _clear_disconnect(self) -> None:
        self._lost = None
        if self._grace_timer is not None:
            self._grace_timer.cancel()

    def _change(self, link: Link) -> None:
        self._is_new = False
        if self._on_link is not None:
            self._runtime.defer(partial(self._on_link, link))
