"""Renews one lease in the background.

1. Renewals go out at a third of the ttl, so two may fail before the lease ends. They go on until the server says that the
   elicitation is closed, or the hold does.
2. Whoever waits for the lease is told when it may have changed, its becoming overdue included, and looks for himself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._io import calls
from ..errors import CallError
from .lease import Lease, LeaseRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.durations import Nanos, Seconds
    from .._io.runtime import Cancel, Runtime
    from ..messages import Elicitation


class Renewal:
    """The renewals of one open elicitation, from its opening on."""

    def __init__(
        self,
        runtime: Runtime,
        elicitation: Elicitation,
        ttl: Seconds,
        record: LeaseRecord,
        timeout: Nanos,
        changed: Callable[[], None],
    ) -> None:
        self.record = record
        self._runtime = runtime
        self._call = calls.renew(elicitation.thread_id, elicitation.elicitation_id, ttl=ttl)
        self._timeout = timeout
        self._changed = changed
        self._overdue: Cancel = runtime.call_at(record.over, changed)
        self._next: Cancel = runtime.call_at(record.renew_at, self._send)

    def lease(self) -> Lease:
        """What the lease is now."""
        return self.record.at(self._runtime.now())

    def stop(self, lease: Lease) -> None:
        """No more renewals: it is closed."""
        self.record.end(lease)
        self._cancel()

    def close(self) -> None:
        """No more renewals: the client is closed, and what becomes of the lease will not be heard."""
        with self._runtime.lock:
            self.record.give_up(self._runtime.now())
            self._cancel()

    def _cancel(self) -> None:
        self._overdue.cancel()
        self._next.cancel()
        self._changed()

    def _send(self) -> None:
        sent = self._runtime.now()
        self._next = self._runtime.unary(self._call, self._timeout, lambda answer: self._answered(sent, answer))

    def _answered(self, sent: Nanos, answer: Elicitation | CallError) -> None:
        now = self._runtime.now()
        if isinstance(answer, CallError):
            self.record.failed(answer, now)
        else:
            self.record.renewed(sent, now)
            self._overdue.cancel()
            self._overdue = self._runtime.call_at(self.record.over, self._changed)
        if self.record.has_ended:
            self._overdue.cancel()
        else:
            self._next = self._runtime.call_at(self.record.renew_at, self._send)
        self._changed()
