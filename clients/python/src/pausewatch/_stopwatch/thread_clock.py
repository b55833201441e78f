"""One thread as its stopwatches share it: its paused time, who waits for a change of it, and the question before an expiry.

1. Pausing is one assignment. Only a resume, a break and its end wake the waiters, and only those who wait for the thread;
   who waits for a timer is not among them.
2. Only the answer to a question that was sent late enough confirms a state.
3. Once it is closed, nobody can be asked: the thread counts as running, and that needs no confirmation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._io.durations import Nanos, to_nanos
from .paused_time import Joined, Moment, PausedTimeTracker, Seen, Version
from .sleep import slept

if TYPE_CHECKING:
    from typing import Protocol

    from .._io.runtime import Runtime
    from .._watch.watching import Watching
    from ..messages import PauseState

    class Waiter(Protocol):
        """Who waits for a change."""

        def look(self) -> None: ...

    class Observer(Protocol):
        """Who settles at every change, before it wakes anybody."""

        def settle(self, now: Nanos) -> None: ...


class ThreadClock:
    """`grace`: for how long what cannot be confirmed counts."""

    def __init__(self, runtime: Runtime, thread_id: str, grace: Nanos, watching: Watching) -> None:
        self._grace = grace
        self._runtime = runtime
        self._thread_id = thread_id
        self._watching = watching
        self._tracker = PausedTimeTracker(runtime.now(), grace)
        # When the last question that was answered was sent.
        self._confirmed_at: Nanos | None = None
        self._closed = False
        # Dicts, since sets keep no order.
        self._wait_for_change: dict[Waiter, None] = {}
        self._wait_for_answer: dict[Waiter, None] = {}
        self._observers: dict[Observer, None] = {}

    @property
    def is_linked(self) -> bool:
        """Whether the thread's state is known and its watch is heard."""
        return self._tracker.valid_until is None

    @property
    def valid_until(self) -> Nanos | None:
        """Until when what is known counts without being confirmed. None: the link is up."""
        return self._tracker.valid_until

    def grace_left(self, joined: Nanos) -> Nanos:
        """How long a stopwatch that has run out may wait for an answer.

        The grace is one budget: a pause that could not be confirmed has used some of it, since the stopwatch joined.
        """
        return self._grace - self._tracker.unconfirmed_pause(joined)

    def paused_time(self, now: Nanos) -> Nanos:
        return self._tracker.paused_time(now)

    def is_paused(self, now: Nanos) -> bool:
        return self._tracker.is_paused(now)

    def join(self, now: Nanos) -> tuple[Nanos, Joined]:
        return self._tracker.join(now)

    def leave(self, waiter: Waiter) -> None:
        self._wait_for_change.pop(waiter, None)
        if self._wait_for_answer.pop(waiter, self) is None and not self._wait_for_answer:
            self._watching.forget_question(self._thread_id)

    def wait_for_change(self, waiter: Waiter) -> None:
        """It is to look again, once, when the thread resumes or the link changes."""
        self._wait_for_change[waiter] = None

    def ask(self, since: Nanos, waiter: Waiter) -> None:
        """It is to look again, once, when the coordinator has answered a question; one is sent at `since` or later."""
        self._wait_for_answer[waiter] = None
        self._watching.ask(self._thread_id, since)

    def is_confirmed(self, since: Nanos) -> bool:
        """Whether a question that was sent at `since` or later is answered, or nobody can be asked any more."""
        return self._closed or (self._confirmed_at is not None and self._confirmed_at >= since)

    def answer_due(self, since: Nanos) -> Nanos:
        """Until when that question is waited for at least."""
        return self._watching.answer_due(self._thread_id, since)

    def observe(self, observer: Observer) -> None:
        """It settles at every change from now on; again does nothing."""
        self._observers[observer] = None

    def ignore(self, observer: Observer) -> None:
        self._observers.pop(observer, None)

    def disconnect(self, silent_for: Nanos = 0) -> None:
        """The watch has not been heard any more for so long."""
        now = self._runtime.now()
        # Until then it was exact.
        self._settle(now - silent_for)
        if self._tracker.disconnect(now, now - silent_for):
            self._tell_change()

    def apply(self, state: PauseState) -> None:
        """Takes a state."""
        seen = Seen(Version(state.store_epoch, state.revision), state.paused, max(0, to_nanos(state.paused_total)))
        moment = Moment(self._runtime.now(), slept())
        must_look = self._tracker.apply(moment, seen)
        self._settle(moment.at)
        if must_look:
            self._tell_change()

    def confirm(self, state: PauseState, sent_at: Nanos, *, watched: bool) -> None:
        """Takes the answer to a question that was sent then; not `watched`: no change will follow."""
        self._confirmed_at = sent_at
        self.apply(state)
        if not watched:
            self.disconnect()
        self._tell_answer()

    def close(self) -> None:
        """The client is closed: from now on the thread counts as running."""
        now = self._runtime.now()
        self._settle(now)
        self._closed = True
        self._tracker.close(now)
        self._tell_change()
        self._tell_answer()

    def _settle(self, now: Nanos) -> None:
        for observer in self._observers:
            observer.settle(now)

    def _tell_answer(self) -> None:
        waiters, self._wait_for_answer = self._wait_for_answer, {}
        for waiter in waiters:
            waiter.look()

    def _tell_change(self) -> None:
        waiters, self._wait_for_change = self._wait_for_change, {}
        for waiter in waiters:
            waiter.look()
