"""One stopwatch, from its start until it expires or is stopped.

It looks; if there is time left, it looks again when that is over. Nothing needs to tell it that a pause began: the look
after its timer finds it. Only then, standing still, does it wait to be told.

1. Nothing but a look decides: after any wake-up, by a timer, a change or an answer, the state is read again.
2. Expired is for ever.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from .._io.durations import MILLISECOND, Nanos
from .asks import Answered, Failed, NotYet, UnderWay
from .meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.runtime import Cancel, Runtime
    from .controller import Controller
    from .paused_time import Joined
    from .thread_clock import ThreadClock

_ASK_AGAIN: Nanos = 500 * MILLISECOND
"""Between two questions to a coordinator that cannot be asked; up to twice as long, at random."""
_SHORTEST_ASK: Nanos = 250 * MILLISECOND
"""However little of the grace is left, a question gets this much time."""


class Ticking:
    """A stopwatch under a thread, which runs since `began`. `ended` is called once: when it has expired, or was stopped."""

    def __init__(
        self,
        runtime: Runtime,
        controller: Controller,
        thread_id: str,
        limit: Nanos | None,
        began: Nanos,
        ended: Callable[[], None],
    ) -> None:
        self.is_expired = False
        self._runtime = runtime
        self._controller = controller
        self._thread_id = thread_id
        self._began = began
        self._ended = ended
        self._clock: ThreadClock = controller.enter(thread_id)
        paused_time, joined = self._clock.join(began)
        self._joined: Joined | None = joined
        self._meter = Meter(limit, began, paused_time)
        self._timer: Cancel | None = None
        # The moment of its end: what it shows stays.
        self._end_reading: tuple[Nanos, Nanos] | None = None
        self.look()

    @property
    def has_ended(self) -> bool:
        return self._end_reading is not None

    @property
    def is_paused(self) -> bool:
        return not self.has_ended and (self._meter.is_paused or self._clock.is_paused(self._runtime.now()))

    @property
    def is_linked(self) -> bool:
        return self._clock.is_linked

    def elapsed(self) -> Nanos:
        return self._meter.elapsed(*self._now())

    def remaining(self) -> Nanos | None:
        return self._meter.remaining(*self._now())

    def pause(self) -> None:
        self._meter.pause(*self._now())

    def resume(self) -> None:
        self._meter.resume(*self._now())
        self.look()

    def stop(self) -> None:
        """Ends it before its time; after its end that does nothing."""
        if not self.has_ended:
            self._end()

    def look(self) -> None:
        """Reads the state, and does what it asks for, or sees to it that it is read again in time."""
        if self.has_ended:
            return
        self._wait_until(None)
        now, paused_time = self._now()
        left = self._meter.left(now, paused_time)
        if self._meter.is_paused or left is None:
            return  # Nothing happens by itself.
        valid_until = self._clock.valid_until
        if self._clock.is_paused(now):
            self._clock.wait_for_change(self)
            self._wait_until(valid_until)
        elif left > 0:
            self._wait_until(now + left)
            if valid_until is not None:
                # What is known of the thread is only assumed.
                self._clock.wait_for_change(self)
        else:
            self._confirm(now, now + left)

    def _confirm(self, now: Nanos, ran_out: Nanos) -> None:
        """The time ran out: the coordinator must be asked, and then this looks again."""
        give_up = ran_out + self._clock.grace_left(self._began)
        match self._clock.asked(ran_out):
            case Answered():
                # The answer has been taken into account by this look.
                self._expire()
            case NotYet():
                self._clock.ask(ran_out)
                self._clock.wait_for_answer(self)
                self._wait_until(max(give_up, now + _SHORTEST_ASK))
            case UnderWay(began, failed_before):
                enough = give_up if failed_before else max(give_up, began + _SHORTEST_ASK)
                if now >= enough:
                    self._expire()
                else:
                    self._clock.wait_for_answer(self)
                    self._wait_until(enough)
            case Failed():
                if now >= give_up:
                    self._expire()
                else:
                    pause = _ASK_AGAIN + random.randint(0, _ASK_AGAIN)
                    self._timer = self._runtime.call_at(min(give_up, now + pause), lambda: self._ask_again(ran_out))
                    self._clock.wait_for_change(self)

    def _ask_again(self, ran_out: Nanos) -> None:
        if self._runtime.now() < ran_out + self._clock.grace_left(self._began):
            self._clock.ask(ran_out)
        self.look()

    def _wait_until(self, when: Nanos | None) -> None:
        """Looks again at that moment, and not at the one before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if when is None else self._runtime.call_at(when, self.look)

    def _expire(self) -> None:
        self.is_expired = True
        self._end()

    def _end(self) -> None:
        self._wait_until(None)
        self._end_reading = self._now()
        self._clock.leave(self)
        self._controller.leave(self._thread_id)
        self._ended()

    def _now(self) -> tuple[Nanos, Nanos]:
        """The moment, and the thread's paused time; afterwards the meter has its place."""
        if self._end_reading is not None:
            return self._end_reading
        if self._joined is not None and self._joined.place is not None:
            self._meter.place(*self._joined.place)
            self._joined = None
        now = self._runtime.now()
        return now, self._clock.paused_time(now)
