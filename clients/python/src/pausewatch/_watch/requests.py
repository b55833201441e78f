"""The requests of a watch, one after the other. Pure: nothing is sent here.

1. One request is under way at a time; changes and confirmations that are wanted meanwhile are collected for the next one.
2. Confirmations have requests of their own and are sent first, so a limit on watched threads, or a forbidden thread, delays
   none of them.
3. A confirmation that the stream has not answered before a disconnect is requested again on the next stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ..v1 import elicitation_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._io.durations import Nanos

MAX_IDS = 500
"""The maximum number of thread ids per request."""


@dataclass(slots=True)
class Confirmation:
    """A request to confirm the state of a thread."""

    requested_at: Nanos
    first_sent_at: Nanos | None = None


class Requests:
    """The requests of one watch. `setup`: the fields that only the first request of a stream may set."""

    def __init__(self, setup: pb.WatchRequest) -> None:
        self._setup = setup
        self._all_threads = setup.all_threads
        self._watched: set[str] = set()
        # Dicts, since sets keep no order.
        self._to_add: dict[str, None] = {}
        self._to_remove: dict[str, None] = {}
        self._to_confirm: dict[str, Confirmation] = {}
        self._confirming: dict[str, Confirmation] = {}
        # When the confirmations that are under way were sent.
        self._confirm_sent_at: Nanos = 0
        # Confirmations that were forbidden on this stream; they are requested again on the next one.
        self._forbidden: dict[str, Confirmation] = {}
        self._token: str | None = None
        self._under_way: pb.WatchRequest | None = None
        self._is_first = True
        # After a refusal: when additions and confirmations may be sent again.
        self._add_not_before: Nanos = 0
        self._confirm_not_before: Nanos = 0

    @property
    def are_answered(self) -> bool:
        """Whether all threads have been added and their states have arrived."""
        is_adding = self._under_way is not None and (self._under_way.add or self._under_way.all_threads)
        return not self._to_add and not is_adding and not (self._all_threads and self._is_first)

    @property
    def wait_until(self) -> Nanos:
        """When a request that was refused because of a limit may be sent again; 0: there is none."""
        waiting = ((self._to_add, self._add_not_before), (self._to_confirm, self._confirm_not_before))
        return min((when for wanted, when in waiting if wanted and when), default=0)

    @property
    def confirming_since(self) -> Nanos | None:
        """The moment since which a confirmation has been awaited. None: none is awaited, or the server has delayed it."""
        if self._confirming:
            return self._confirm_sent_at
        return next(iter(self._to_confirm.values())).requested_at if self._to_confirm and not self._confirm_not_before else None

    @property
    def is_setting_up(self) -> bool:
        """Whether the request under way has fields that only the first request of a stream may set."""
        sent = self._under_way
        return sent is not None and (sent.all_threads or sent.include_elicitations or sent.observer)

    @property
    def _has_setup(self) -> bool:
        """Whether the next request has such fields."""
        return self._is_first and self._setup.ByteSize() > 0

    def is_watched(self, thread_id: str) -> bool:
        return thread_id in self._watched

    def restart(self, thread_ids: Iterable[str]) -> None:
        """Begins again on a new stream, on which these threads are to be watched."""
        self._to_confirm = self._forbidden | self._confirming | self._to_confirm
        self._confirming, self._forbidden, self._under_way, self._is_first = {}, {}, None, True
        self._token = None
        self._to_remove.clear()
        self._watched.clear()
        self._to_add = dict.fromkeys(thread_ids)
        self._add_not_before = self._confirm_not_before = 0

    def renew(self, token: str) -> None:
        """Renews the token of the stream."""
        self._token = token

    def add(self, thread_id: str) -> None:
        """Adds a thread."""
        # Also if it is still watched: the server sends the state of each thread that is added.
        self._to_remove.pop(thread_id, None)
        self._to_add[thread_id] = None

    def remove(self, thread_id: str) -> None:
        """Removes a thread, and its confirmation."""
        self.cancel_confirmation(thread_id)
        self._to_add.pop(thread_id, None)
        if thread_id in self._watched:
            self._to_remove[thread_id] = None

    def confirm(self, thread_id: str, since: Nanos, now: Nanos) -> None:
        """Has the thread's state confirmed by a request that is sent at `since` or later."""
        if self.confirmation(thread_id, since) is None:
            self._to_confirm[thread_id] = Confirmation(now)

    def confirmation(self, thread_id: str, since: Nanos) -> Confirmation | None:
        """The thread's confirmation that was sent at `since` or later, or is still to be sent."""
        if thread_id in self._confirming and self._confirm_sent_at >= since:
            return self._confirming[thread_id]
        return self._to_confirm.get(thread_id) or self._forbidden.get(thread_id)

    def cancel_confirmation(self, thread_id: str) -> None:
        """Cancels the thread's confirmation: its answer is no longer needed."""
        for confirmations in (self._to_confirm, self._confirming, self._forbidden):
            confirmations.pop(thread_id, None)

    def next(self, now: Nanos) -> pb.WatchRequest | None:
        """The request to send now. None: one is under way, or there is nothing to send."""
        if self._under_way is not None:
            return None
        request = None
        if self._token is not None and not self._is_first:
            # Alone, so that nothing must be sent again if it is refused.
            request, self._token = pb.WatchRequest(token=self._token), None
        elif self._to_confirm and now >= self._confirm_not_before:
            request = self._next_confirmations(now)
        elif self._to_remove or (self._to_add and now >= self._add_not_before) or self._has_setup:
            # If no thread may be added, the options are sent alone: a stream without an answer would be reopened again and
            # again.
            request = self._next_changes(now)
        if request is not None:
            self._under_way, self._is_first = request, False
        return request

    def on_answer(self) -> None:
        """Notes that the request under way was answered."""
        self._under_way = None
        self._confirming = {}

    def sent_at(self, thread_id: str) -> Nanos | None:
        """When the confirmation that is being answered was sent; None: there is none."""
        return self._confirm_sent_at if thread_id in self._confirming else None

    def on_refusal(self, forbidden: set[str], again_at: Nanos) -> list[str]:
        """Notes that the request under way was refused: it is sent again at `again_at`, without the threads in `forbidden`.

        Returns the threads that are not watched because of the refusal.
        """
        request, self._under_way = self._under_way, None
        if request is None:
            return []
        self._forbidden |= {each: self._confirming.pop(each) for each in forbidden if each in self._confirming}
        self._to_confirm, self._confirming = self._confirming | self._to_confirm, {}
        if request.confirm:
            self._confirm_not_before = again_at
        elif request.add:
            self._add_not_before = again_at
        self._to_remove |= dict.fromkeys(request.remove)
        # A thread that was removed meanwhile needs neither an addition nor a removal.
        wanted = [thread_id for thread_id in request.add if self._to_remove.pop(thread_id, self) is self]
        self._watched.difference_update(request.add)
        self._to_add = dict.fromkeys(each for each in wanted if each not in forbidden) | self._to_add
        return wanted

    def _next_confirmations(self, now: Nanos) -> pb.WatchRequest:
        self._confirm_sent_at, self._confirm_not_before = now, 0
        for thread_id in list(islice(self._to_confirm, MAX_IDS)):
            confirmation = self._confirming[thread_id] = self._to_confirm.pop(thread_id)
            confirmation.first_sent_at = confirmation.first_sent_at or now
        return pb.WatchRequest(confirm=self._confirming)

    def _next_changes(self, now: Nanos) -> pb.WatchRequest:
        remove = list(islice(self._to_remove, MAX_IDS))
        add = list(islice(self._to_add, MAX_IDS - len(remove))) if now >= self._add_not_before else []
        for thread_id in remove:
            del self._to_remove[thread_id]
        for thread_id in add:
            del self._to_add[thread_id]
        if add:
            self._add_not_before = 0
        self._watched.difference_update(remove)
        self._watched.update(add)
        request = pb.WatchRequest(add=add, remove=remove)
        if self._is_first:
            request.MergeFrom(self._setup)
        return request
