"""A watch in the background: sends the requests on its stream, and turns the messages into events.

1. The states of a thread arrive in order: on one stream, and from one stream to the next.
2. Memory is bounded by the set of threads; for a watch of all threads, by those that are paused, or were at the last disconnect.
3. Every disconnect is reported once, and the first state after it carries `gap`; `paused_total` covers what was missed.
4. While no thread is watched there is no stream.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from .._io import status
from .._io.durations import SECOND, Nanos
from .._io.tokens import MIN_RENEWAL_DELAY, renewal_delay
from ..errors import CallError
from ..messages import PauseState
from ..v1 import elicitation_service_pb2 as pb
from .events import Disconnected, Event, SnapshotComplete, State
from .requests import Requests
from .stream import CONFIRMATION_TIMEOUT, WatchStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .._io.runtime import Cancel, Runtime


_logger = logging.getLogger("pausewatch")


@dataclass(slots=True)
class _Thread:
    reported: tuple[int, int] | None = None
    """The epoch and the revision of the last reported state."""
    gap: bool = True
    disconnected: bool = False
    """Whether the disconnect was reported, and no state has arrived since."""
    refused: bool = False
    """Whether the refusal was reported, and no state has arrived since."""


class Watching:
    """Watches the threads that are added, or every thread, from `start` until `close`.

    `deliver` receives the events. `confirmed` receives the confirmations: the state, when its request was sent, and whether
    changes will follow. `setup` has the settings of the whole watch: all threads, with elicitations, as an observer.
    """

    def __init__(
        self,
        runtime: Runtime,
        deadline: Nanos,
        deliver: Callable[[Event], None],
        confirmed: Callable[[PauseState, Nanos, bool], None] | None = None,
        *,
        setup: pb.WatchRequest | None = None,
    ) -> None:
        self._runtime = runtime
        self._deliver = deliver
        self._confirmed = confirmed
        setup = setup or pb.WatchRequest()
        self._all_threads = setup.all_threads
        self._threads: dict[str, _Thread] = {}
        self._requests = Requests(setup)
        self._stream = WatchStream(runtime, deadline, self)
        self._retry_timer: Cancel | None = None
        # The token of the stream, and the timer for its renewal.
        self._token: str | None = None
        self._renewal: Cancel | None = None
        self._complete_reported = False
        # Threads that were forbidden on the last stream: the next stream is opened without them.
        self._excluded: set[str] = set()
        # For a watch of all threads: whether its disconnect was reported.
        self._disconnect_reported = False
        self._closed = False

    @property
    def is_connected(self) -> bool:
        """Whether a stream is open."""
        return self._stream.is_open

    def add(self, thread_id: str) -> None:
        """Adds a thread; `start` sends the request."""
        if thread_id not in self._threads:
            self._threads[thread_id] = _Thread()
            self._complete_reported = False
            self._requests.add(thread_id)

    def remove(self, thread_id: str) -> None:
        """Removes a thread."""
        if self._threads.pop(thread_id, None) is None:
            return
        self._requests.remove(thread_id)
        if self._threads:
            self.start()
        else:
            self._end()

    def confirm(self, thread_id: str, since: Nanos) -> None:
        """Has the state of a thread in the set confirmed, by a request that is sent at `since` or later."""
        self._requests.confirm(thread_id, since, self._runtime.now())
        self.start()

    def cancel_confirmation(self, thread_id: str) -> None:
        """Cancels the thread's confirmation: its answer is no longer needed."""
        self._requests.cancel_confirmation(thread_id)
        self._stream.expect_confirmation(self._requests.confirming_since)

    def confirmation_deadline(self, thread_id: str, since: Nanos) -> Nanos:
        """The earliest moment at which the wait for a confirmation that `confirm` requested may end."""
        confirmation = self._requests.confirmation(thread_id, since)
        assert confirmation is not None
        return (confirmation.first_sent_at or confirmation.requested_at) + CONFIRMATION_TIMEOUT

    def start(self) -> None:
        """Opens the stream if one is needed, and sends the next request."""
        if self._closed or not (self._threads or self._all_threads):
            return
        if not self._stream.is_running:
            self._stream.open()
        elif self._stream.is_open:
            self._send()
        self._stream.expect_confirmation(self._requests.confirming_since)

    def stop_reading(self) -> None:
        """Stops reading, until `resume_reading`: only events that are already on their way are delivered."""
        self._stream.stop_reading()

    def resume_reading(self) -> None:
        """Continues to read."""
        self._stream.resume_reading()

    def close(self) -> None:
        """Closes the watch. No event is delivered afterwards."""
        self._closed = True
        self._end()

    def on_opened(self) -> None:
        excluded, self._excluded = self._excluded, set()
        self._requests.restart(each for each in self._threads if each not in excluded)
        self._token = self._stream.token
        self._renew_later()
        self._send()

    def on_message(self, message: pb.WatchResponse) -> None:
        match message.WhichOneof("event"):
            case "pause_state":
                self._state(PauseState.read(message.pause_state))
            case "confirmation":
                for state in message.confirmation.pause_states:
                    self._confirmation(PauseState.read(state))
            case "snapshot_complete":
                self._stream.on_answer()
                self._requests.on_answer()
                self._continue_sending()
            case "refusal":
                self._refused(message.refusal)
                self._continue_sending()
            # A heartbeat, or an unknown event of a newer server, only shows that the stream is alive.

    def on_disconnected(self, error: CallError, silent_for: Nanos) -> None:
        self._complete_reported = False
        self._disconnect(self._threads, error, silent_for)

    def _end(self) -> None:
        self._stream.close()
        for timer in (self._retry_timer, self._renewal):
            if timer is not None:
                timer.cancel()

    def _renew_later(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        if self._token is not None:
            when = self._runtime.now() + renewal_delay(self._token, time.time())
            self._renewal = self._runtime.call_at(when, self._renew)

    def _renew(self) -> None:
        """Sends the current token if it has changed. Without a stream, there is nothing to do: the next one begins with it."""
        if self._stream.is_open:
            self._renewal = self._runtime.next_token(self._renewed)

    def _renewed(self, token: str | CallError) -> None:
        if not self._stream.is_open:
            return
        if isinstance(token, CallError):
            _logger.warning("the token cannot be renewed", exc_info=token)
            self._renewal = self._runtime.call_at(self._runtime.now() + MIN_RENEWAL_DELAY, self._renew)
            return
        if token != self._token:
            self._token = token
            self._requests.renew(token)
            self._send()
        self._renew_later()

    def _send(self) -> None:
        now = self._runtime.now()
        if (request := self._requests.next(now)) is not None:
            self._stream.send(request)
        elif (when := self._requests.wait_until) > now:
            if self._retry_timer is not None:
                self._retry_timer.cancel()
            self._retry_timer = self._runtime.call_at(when, self.start)

    def _continue_sending(self) -> None:
        # The receiver of an event may have closed the watch.
        if self._stream.is_open and not self._closed:
            self.start()
            self._report_complete()

    def _state(self, state: PauseState) -> None:
        thread = self._threads.get(state.thread_id)
        self._disconnect_reported = False
        if thread is None:
            if not self._all_threads:
                return  # It was removed.
            thread = self._threads[state.thread_id] = _Thread(gap=not self._complete_reported)
        version = (state.store_epoch, state.revision)
        gap, reported = thread.gap, thread.reported
        thread.reported, thread.gap, thread.disconnected, thread.refused = version, False, False, False
        if self._all_threads and not state.paused:
            del self._threads[state.thread_id]
        if gap or reported is None or reported[0] != version[0] or reported[1] < version[1]:
            self._deliver(State(state, gap, reported != version))

    def _confirmation(self, state: PauseState) -> None:
        sent_at = self._requests.sent_at(state.thread_id)
        if sent_at is not None and self._confirmed is not None:
            self._confirmed(state, sent_at, self._requests.is_watched(state.thread_id))

    def _refused(self, refusal: pb.Refusal) -> None:
        """Excludes forbidden threads until the next stream; the watch of the others continues. If the request had fields that
        only the first request of a stream may set, the stream is reopened.
        """
        error, forbidden = status.from_refusal(refusal), set(refusal.thread_ids)
        delay = max(0, refusal.retry_after.ToNanoseconds()) if refusal.HasField("retry_after") else SECOND
        delay = 0 if forbidden else delay
        must_reopen = self._requests.is_setting_up
        unwatched = self._requests.on_refusal(forbidden, self._runtime.now() + delay)
        if self._all_threads:
            self._threads = {each: thread for each, thread in self._threads.items() if each not in forbidden}
        else:
            self._disconnect([each for each in unwatched if not forbidden or each in forbidden], error, 0, refused=True)
        if must_reopen:
            self._excluded = forbidden
            self._stream.reopen(error, delay)
        else:
            self._stream.on_answer()

    def _disconnect(self, thread_ids: Iterable[str], error: CallError, silent_for: Nanos, *, refused: bool = False) -> None:
        """Reports a disconnect once per thread. A refusal says more, so it is reported even after a disconnect."""
        silence = timedelta(microseconds=silent_for // 1_000)
        newly_disconnected = []
        for thread_id in thread_ids:
            thread = self._threads[thread_id]
            if not (thread.refused if refused else thread.disconnected):
                thread.disconnected = thread.gap = True
                thread.refused = refused
                newly_disconnected.append(thread_id)
        if self._all_threads and not self._disconnect_reported:
            self._disconnect_reported = True
            self._deliver(Disconnected(frozenset(), error, silence))
        elif newly_disconnected and not self._all_threads:
            self._deliver(Disconnected(frozenset(newly_disconnected), error, silence))

    def _report_complete(self) -> None:
        if not self._complete_reported and self._requests.are_answered:
            self._complete_reported, self._disconnect_reported = True, False
            self._deliver(SnapshotComplete())
