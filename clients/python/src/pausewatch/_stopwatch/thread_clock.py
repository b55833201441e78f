"""One thread, shared by its stopwatches: its paused time, the waiters for its changes, and the confirmation before an expiry.

1. A pause is one assignment. Only a resume, a disconnect and a reconnect wake waiters, and only those that wait for the thread,
   not those that wait for a timer.
2. A state is confirmed only by the answer to a request that was sent late enough.
3. After `close` the coordinator cannot be asked: the thread counts as running, without a confirmation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._io.durations import Nanos, to_nanos
from .paused_time import JoinBaseline, Moment, PausedTimeTracker, Seen, Version
from .sleep import slept

if TYPE_CHECKING:
    from typing import Protocol

    from .._io.runtime import Runtime
    from .._watch.watching import Watching
    from ..messages import PauseState

    class Waiter(Protocol):
        """Waits for a change."""

        def check(self) -> None: ...

    class Observer(Protocol):
        """Settles at every change, before the waiters are woken."""

        def settle(self, now: Nanos) -> None: ...


class ThreadClock:
    """Its paused time begins at `began`. `grace`: how long an unconfirmed pause counts."""

    def __init__(self, runtime: Runtime, thread_id: str, grace: Nanos, watching: Watching, began: Nanos) -> None:
        self._grace = grace
        self._runtime = runtime
        self._thread_id = thread_id
        self._watching = watching
        self._tracker = PausedTimeTracker(began, grace)
        # When the request of the last answered confirmation was sent.
        self._confirmed_at: Nanos | None = None
        self._closed = False
        # Dicts, since sets keep no order.
        self._waiting_for_change: dict[Waiter, None] = {}
        self._waiting_for_confirmation: dict[Waiter, None] = {}
        self._observers: dict[Observer, None] = {}

    @property
    def is_linked(self) -> bool:
        """Whether the thread's state is known and its watch is connected."""
        return self._tracker.valid_until is None

    @property
    def valid_until(self) -> Nanos | None:
        """When a pause that cannot be confirmed stops counting. None: the link is up."""
        return self._tracker.valid_until

    def grace_left(self, joined: Nanos) -> Nanos:
        """How long a stopwatch that has run out may wait for a confirmation.

        The grace is one budget: an unconfirmed pause since the stopwatch joined has used some of it.
        """
        return self._grace - self._tracker.unconfirmed_pause(joined)

    def paused_time(self, now: Nanos) -> Nanos:
        return self._tracker.paused_time(now)

    def is_paused(self, now: Nanos) -> bool:
        return self._tracker.is_paused(now)

    def join(self, now: Nanos) -> tuple[Nanos, JoinBaseline]:
        return self._tracker.join(now)

    def leave(self, waiter: Waiter) -> None:
        self._waiting_for_change.pop(waiter, None)
        if self._waiting_for_confirmation.pop(waiter, self) is None and not self._waiting_for_confirmation:
            self._watching.cancel_confirmation(self._thread_id)

    def wait_for_change(self, waiter: Waiter) -> None:
        """Has the waiter check again, once, when the thread resumes or the link changes."""
        self._waiting_for_change[waiter] = None

    def request_confirmation(self, since: Nanos, waiter: Waiter) -> None:
        """Requests a confirmation that is sent at `since` or later, and has the waiter check again, once, when it is answered."""
        self._waiting_for_confirmation[waiter] = None
        self._watching.confirm(self._thread_id, since)

    def is_confirmed(self, since: Nanos) -> bool:
        """Whether a confirmation that was sent at `since` or later is answered, or the client is closed."""
        return self._closed or (self._confirmed_at is not None and self._confirmed_at >= since)

    def confirmation_deadline(self, since: Nanos) -> Nanos:
        """The earliest moment at which the wait for that confirmation may end."""
        return self._watching.confirmation_deadline(self._thread_id, since)

    def observe(self, observer: Observer) -> None:
        """Has the observer settle at every change from now on. Calling it again does nothing."""
        self._observers[observer] = None

    def ignore(self, observer: Observer) -> None:
        self._observers.pop(observer, None)

    def disconnect(self, silent_for: Nanos = 0) -> None:
        """Notes that the watch is disconnected; its last message was received `silent_for` ago."""
        now = self._runtime.now()
        # The state was exact until then.
        self._settle(now - silent_for)
        if self._tracker.disconnect(now, now - silent_for):
            self._notify_change()

    def apply(self, state: PauseState) -> None:
        """Applies a state."""
        paused_for = max(0, to_nanos(state.paused_for)) if state.paused_for else 0
        seen = Seen(Version(state.store_epoch, state.revision), state.paused, max(0, to_nanos(state.paused_total)), paused_for)
        moment = Moment(self._runtime.now(), slept())
        must_check = self._tracker.apply(moment, seen)
        self._settle(moment.at)
        if must_check:
            self._notify_change()

    def confirm(self, state: PauseState, sent_at: Nanos, *, watched: bool) -> None:
        """Applies a confirmation that was sent at `sent_at`. Not `watched`: no changes will follow."""
        self._confirmed_at = sent_at
        self.apply(state)
        if not watched:
            self.disconnect()
        self._notify_confirmation()

    def close(self) -> None:
        """Notes that the client is closed: from now on the thread counts as running."""
        now = self._runtime.now()
        self._settle(now)
        self._closed = True
        self._tracker.close(now)
        self._notify_change()
        self._notify_confirmation()

    def _settle(self, now: Nanos) -> None:
        for observer in self._observers:
            observer.settle(now)

    def _notify_confirmation(self) -> None:
        waiters, self._waiting_for_confirmation = self._waiting_for_confirmation, {}
        for waiter in waiters:
            waiter.check()

    def _notify_change(self) -> None:
        waiters, self._waiting_for_change = self._waiting_for_change, {}
        for waiter in waiters:
            waiter.check()
