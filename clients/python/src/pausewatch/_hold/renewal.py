"""Renews one lease in the background.

1. A renewal is sent after each third of the ttl, so two may fail before the lease ends. Renewals continue until the server
   reports that the elicitation is closed, or the hold is released.
2. `changed` is called whenever the state of the lease may have changed, also when it becomes overdue. The waiters then read
   the state again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .._io import calls
from ..errors import CallError
from .lease import Lease, LeaseRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.durations import Nanos
    from .._io.runtime import Cancel, Runtime
    from ..messages import Elicitation

_logger = logging.getLogger("pausewatch")


class Renewal:
    """The renewals of one open elicitation, from its increment on."""

    def __init__(
        self,
        runtime: Runtime,
        elicitation: Elicitation,
        record: LeaseRecord,
        timeout: Nanos,
        changed: Callable[[], None],
    ) -> None:
        self.record = record
        self._runtime = runtime
        self._call = calls.renew(elicitation.thread_id, elicitation.elicitation_id)
        self._timeout = timeout
        self._changed = changed
        self._overdue: Cancel = runtime.call_at(record.over, changed)
        self._next: Cancel = runtime.call_at(record.renew_at, self._send)

    def lease(self) -> Lease:
        """The present state of the lease."""
        return self.record.at(self._runtime.now())

    def stop(self, lease: Lease) -> None:
        """Stops the renewals: the elicitation is closed."""
        self.record.end(lease)
        self._cancel()

    def close(self) -> None:
        """Stops the renewals: the client is closed, and later changes of the lease cannot be known."""
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
            # An interceptor or a token source of the program has failed: nobody else sees its exception.
            if answer.__cause__ is not None:
                _logger.warning("a renewal failed", exc_info=answer)
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
