"""One thread as its stopwatches share it: its paused time, who waits for a change of it, and the question before an expiry.

1. Pausing is one assignment. Only a resume, a break and its end wake the waiters, and only those who wait for the thread;
   who waits for a timer is not among them.
2. A question is answered also when the one who asked has gone: others may have joined it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._io import calls
from .._io.durations import Nanos, to_nanos
from ..errors import CallError
from .asks import Asks, Outcome
from .paused_time import Asked, Joined, Moment, PausedTimeTracker, Seen, Version, Watched
from .sleep import slept

if TYPE_CHECKING:
    from typing import Protocol

    from .._io.runtime import Runtime
    from ..messages import PauseState

    class Waiter(Protocol):
        """Who waits for a change."""

        def look(self) -> None: ...

    class Observer(Protocol):
        """Who settles at every change, before it wakes anybody."""

        def settle(self, now: Nanos) -> None: ...


class ThreadClock:
    """`grace`: for how long what cannot be confirmed counts. `deadline`: of a question."""

    def __init__(self, runtime: Runtime, thread_id: str, grace: Nanos, deadline: Nanos) -> None:
        self._grace = grace
        self._runtime = runtime
        self._call = calls.get(thread_id)
        self._deadline = deadline
        self._tracker = PausedTimeTracker(runtime.now(), grace)
        self._asks = Asks()
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
        self._wait_for_answer.pop(waiter, None)

    def wait_for_change(self, waiter: Waiter) -> None:
        """It is to look again, once, when the thread resumes or the link changes."""
        self._wait_for_change[waiter] = None

    def wait_for_answer(self, waiter: Waiter) -> None:
        """It is to look again, once, when a question is over."""
        self._wait_for_answer[waiter] = None

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

    def apply(self, state: PauseState, via: Watched | Asked) -> None:
        """Takes a state."""
        seen = Seen(Version(state.store_epoch, state.revision), state.paused, max(0, to_nanos(state.paused_total)))
        moment = Moment(self._runtime.now(), slept())
        must_look = self._tracker.apply(moment, seen, via)
        self._settle(moment.at)
        if must_look:
            self._tell_change()

    def asked(self, since: Nanos) -> Outcome:
        """What became of a question that began at `since` or later."""
        return self._asks.since(since)

    def ask(self, since: Nanos) -> None:
        """Asks the coordinator, unless a question that began at `since` or later is under way."""
        if self._asks.wanted(since, self._runtime.now()):
            self._put_question()

    def _put_question(self) -> None:
        known = self._tracker.version
        self._runtime.unary(self._call, self._deadline, lambda answer: self._answered(known, answer))

    def _answered(self, known: Version | None, answer: PauseState | CallError) -> None:
        answered = not isinstance(answer, CallError)
        if not isinstance(answer, CallError):
            self.apply(answer, Asked(known))
        if self._asks.over(answered=answered, now=self._runtime.now()):
            self._put_question()
        waiters, self._wait_for_answer = self._wait_for_answer, {}
        for waiter in waiters:
            waiter.look()

    def _settle(self, now: Nanos) -> None:
        for observer in self._observers:
            observer.settle(now)

    def _tell_change(self) -> None:
        waiters, self._wait_for_change = self._wait_for_change, {}
        for waiter in waiters:
            waiter.look()
