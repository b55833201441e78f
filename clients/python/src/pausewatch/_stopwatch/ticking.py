"""One stopwatch, from its start until it expires or is stopped.

It looks; if there is time left, it looks again when that is over. Nothing needs to tell it that a pause began: the look
after its timer finds it. Only then, standing still, does it wait to be told.

1. Nothing but a look decides: after any wake-up, by a timer, a change or an answer, the state is read again.
2. Expired is for ever.
3. Neither a pause nor a question moves the end of `max_wall`: every wait ends there at the latest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ended_by import EndedBy
from .follows import Follows
from .meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.durations import Nanos
    from .._io.runtime import Cancel, Runtime
    from .controller import Controller


class Ticking:
    """A stopwatch under a thread, which runs since `began`. `ended` is called once: when it has expired, or was stopped.

    `limit`: of unpaused time; `max_wall`: of wall time. None: there is none.
    """

    def __init__(
        self,
        runtime: Runtime,
        controller: Controller,
        thread_id: str,
        limit: Nanos | None,
        began: Nanos,
        ended: Callable[[], None],
        max_wall: Nanos | None = None,
    ) -> None:
        self.ended_by: EndedBy | None = None
        self._runtime = runtime
        self._wall_end = None if max_wall is None else began + max_wall
        self._ended = ended
        self._follows = Follows(controller, thread_id, began)
        self._meter = Meter(limit, began, self._follows.paused_time(began))
        self._timer: Cancel | None = None
        # The moment of its end: what it shows stays.
        self._end_reading: tuple[Nanos, Nanos] | None = None
        self.look()

    @property
    def is_expired(self) -> bool:
        return self.ended_by is not None

    @property
    def has_ended(self) -> bool:
        return self._end_reading is not None

    @property
    def is_paused(self) -> bool:
        return not self.has_ended and (self._meter.is_paused or self._follows.is_paused(self._runtime.now()))

    @property
    def is_linked(self) -> bool:
        return self._follows.is_linked

    def elapsed(self) -> Nanos:
        return self._meter.elapsed(*self._now())

    def remaining(self) -> Nanos | None:
        return self._meter.remaining(*self._now())

    def pause(self) -> None:
        self._meter.pause(*self._use())

    def resume(self) -> None:
        self._meter.resume(*self._use())
        self.look()

    def set_left(self, left: Nanos | None) -> None:
        """Changes the limit, so that this is left of it; after its end that does nothing."""
        if not self.has_ended:
            self._meter.set_left(*self._now(), left)
            self.look()

    def await_thread(self, thread_id: str) -> None:
        """Stands still while that thread is paused too."""
        if not self.has_ended:
            # The look that is to come finds it.
            self._follows.add(thread_id, self._runtime.now())

    def unawait_thread(self, thread_id: str) -> None:
        """Ends one `await_thread`."""
        if not self.has_ended:
            if (follow := self._follows.remove(thread_id, self._runtime.now())) is not None:
                follow.clock.leave(self)
            self.look()

    def stop(self) -> None:
        """Ends it before its time; after its end that does nothing."""
        if not self.has_ended:
            self._end()

    def look(self) -> None:
        """Reads the state, and does what it asks for, or sees to it that it is read again in time."""
        if self.has_ended:
            return
        now, paused_time = self._now()
        if self._wall_end is not None and now >= self._wall_end:
            self._expire(EndedBy.MAX_WALL)
            return
        self._wait_until(None)
        left = self._meter.left(now, paused_time)
        if self._meter.is_paused or left is None:
            return  # Nothing happens by itself.
        paused = [follow.clock for follow in self._follows.all if follow.clock.is_paused(now)]
        if paused:
            for clock in paused:
                clock.wait_for_change(self)
            self._wait_until(min((clock.valid_until for clock in paused if clock.valid_until is not None), default=None))
        elif left > 0:
            self._wait_until(now + left)
            self._wait_for_link()
        else:
            self._confirm(now, now + left)

    def _confirm(self, now: Nanos, ran_out: Nanos) -> None:
        """The time ran out: the coordinator must be asked of every thread, and then this looks again."""
        clocks = [follow.clock for follow in self._follows.all]
        unconfirmed = [clock for clock in clocks if not clock.is_confirmed(ran_out)]
        for clock in unconfirmed:
            clock.ask(ran_out, self)
        # The grace is one budget, whichever thread has used it.
        give_up = ran_out + min(follow.clock.grace_left(follow.joined_at) for follow in self._follows.all)
        enough = max([give_up, *(clock.answer_due(ran_out) for clock in unconfirmed)])
        if unconfirmed and now < enough:
            self._wait_until(enough)
            self._wait_for_link()
        else:
            # The answers have been taken into account by this look.
            self._expire(EndedBy.LIMIT)

    def _wait_for_link(self) -> None:
        """What is known of a thread that is not heard is only assumed."""
        for follow in self._follows.all:
            if not follow.clock.is_linked:
                follow.clock.wait_for_change(self)

    def _wait_until(self, when: Nanos | None) -> None:
        """Looks again at that moment, and not at the one before; at the end of `max_wall` at the latest."""
        self._cancel_timer()
        if self._wall_end is not None and (when is None or when >= self._wall_end):
            when = self._wall_end
        if when is not None:
            self._timer = self._runtime.call_at(when, self.look)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _expire(self, by: EndedBy) -> None:
        self.ended_by = by
        self._end()

    def _end(self) -> None:
        self._cancel_timer()
        self._end_reading = self._now()
        self._follows.leave(self)
        self._ended()

    def _use(self) -> tuple[Nanos, Nanos]:
        """What the meter is to settle."""
        now, paused_time = self._now()
        self._follows.used(now)
        return now, paused_time

    def _now(self) -> tuple[Nanos, Nanos]:
        """The moment, and the paused time of its threads."""
        if self._end_reading is not None:
            return self._end_reading
        now = self._runtime.now()
        return now, self._follows.paused_time(now)
