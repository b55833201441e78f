"""One stopwatch, from its start until it expires or is stopped.

A stopwatch checks its state. If there is time left, it sets a timer and checks again when the timer fires. It is not notified
when a pause begins: the check after its timer finds the pause. Only then does the stopwatch wait for a notification of the
resume.

1. Only a check decides: after any wake-up, by a timer, a change or a confirmation, the state is read again.
2. An expired stopwatch stays expired.
3. Neither a pause nor a confirmation extends `max_wall`: every wait ends then at the latest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._io.durations import SECOND
from .ended_by import EndedBy
from .follows import Follows
from .meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._io.durations import Nanos
    from .._io.runtime import Cancel, Runtime
    from .controller import Controller


_LATE: Nanos = SECOND
"""If a check finds later than this that the time ran out, the process was stopped, or the link was dead without notice, so that
no confirmation could be requested earlier. Then the confirmation has a time limit of its own, within which a new stream can be
opened."""
_LATE_CONFIRMATION_TIME: Nanos = 2 * SECOND


class Ticking:
    """A stopwatch of a thread, started at `began`. `ended` is called once: when it has expired or was stopped.

    `limit`: on unpaused time; `max_wall`: on wall time. None: there is no such limit.
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
        # When a check has found that the time ran out.
        self._noticed: Nanos | None = None
        # The moment and the paused time at its end: its times do not change afterwards.
        self._end_reading: tuple[Nanos, Nanos] | None = None
        self.check()

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
        self.check()

    def set_left(self, left: Nanos | None) -> None:
        """Changes the limit, so that `left` remains. Does nothing after its end."""
        if not self.has_ended:
            self._meter.set_left(*self._now(), left)
            self.check()

    def await_thread(self, thread_id: str) -> None:
        """Stands still while that thread is paused too."""
        if not self.has_ended:
            # The next check, which is already scheduled, finds its pauses.
            self._follows.add(thread_id, self._runtime.now())

    def unawait_thread(self, thread_id: str) -> None:
        """Ends one `await_thread`."""
        if not self.has_ended:
            if (follow := self._follows.remove(thread_id, self._runtime.now())) is not None:
                follow.clock.leave(self)
            self.check()

    def stop(self) -> None:
        """Stops it: it will not expire. Does nothing after its end."""
        if not self.has_ended:
            self._end()

    def check(self) -> None:
        """Reads the state; expires, or schedules the next check."""
        if self.has_ended:
            return
        now, paused_time = self._now()
        if self._wall_end is not None and now >= self._wall_end:
            self._expire(EndedBy.MAX_WALL)
            return
        self._wait_until(None)
        noticed, self._noticed = self._noticed, None
        left = self._meter.left(now, paused_time)
        if self._meter.is_paused or left is None:
            return  # Only a call can change this state.
        paused = [follow.clock for follow in self._follows.all if follow.clock.is_paused(now)]
        if paused:
            for clock in paused:
                clock.wait_for_change(self)
            self._wait_until(min((clock.valid_until for clock in paused if clock.valid_until is not None), default=None))
        elif left > 0:
            self._wait_until(now + left)
            self._wait_for_link()
        else:
            self._noticed = now if noticed is None else noticed
            self._confirm(now, now + left, self._noticed)

    def _confirm(self, now: Nanos, ran_out: Nanos, noticed: Nanos) -> None:
        """Requests a confirmation of every thread after the time ran out; each answer leads to another check."""
        clocks = [follow.clock for follow in self._follows.all]
        unconfirmed = [clock for clock in clocks if not clock.is_confirmed(ran_out)]
        for clock in unconfirmed:
            clock.request_confirmation(ran_out, self)
        # The grace is one budget, no matter which thread has used it.
        give_up = ran_out + min(follow.clock.grace_left(follow.joined_at) for follow in self._follows.all)
        if noticed - ran_out > _LATE:
            give_up = max(give_up, noticed + _LATE_CONFIRMATION_TIME)
        deadline = max([give_up, *(clock.confirmation_deadline(ran_out) for clock in unconfirmed)])
        if unconfirmed and now < deadline:
            self._wait_until(deadline)
            self._wait_for_link()
        else:
            # This check has taken the confirmations into account.
            self._expire(EndedBy.LIMIT)

    def _wait_for_link(self) -> None:
        """Checks again when the link of a thread changes: without a link, its state is only assumed."""
        for follow in self._follows.all:
            if not follow.clock.is_linked:
                follow.clock.wait_for_change(self)

    def _wait_until(self, when: Nanos | None) -> None:
        """Replaces the timer: checks again at that moment, or at the end of `max_wall` if that is earlier."""
        self._cancel_timer()
        if self._wall_end is not None and (when is None or when >= self._wall_end):
            when = self._wall_end
        if when is not None:
            self._timer = self._runtime.call_at(when, self.check)

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
        """The moment and the paused time for the meter to settle; notes that the paused time is used."""
        now, paused_time = self._now()
        self._follows.used(now)
        return now, paused_time

    def _now(self) -> tuple[Nanos, Nanos]:
        """The moment, and the paused time of its threads."""
        if self._end_reading is not None:
            return self._end_reading
        now = self._runtime.now()
        return now, self._follows.paused_time(now)
