"""What is sent on the stream of a watch, one request after the other. Pure: nothing is sent here.

1. One request is under way at a time; what is wanted meanwhile is collected for the next one.
2. Questions go alone and first: a limit on watched threads, or a thread that is forbidden, delays none of them.
3. What a stream has not answered when it breaks is wanted again on the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ..v1 import elicitation_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._io.durations import Nanos

MOST_IDS = 500
"""The most thread ids in one request."""


@dataclass(slots=True)
class Question:
    """A thread whose state is to be confirmed."""

    put_at: Nanos
    first_sent_at: Nanos | None = None


class Requests:
    """Those of one watch. `setup`: what only the first one on a stream may say."""

    def __init__(self, setup: pb.WatchRequest) -> None:
        self._setup = setup
        self._everything = setup.all_threads
        self._watched: set[str] = set()
        # Dicts, since sets keep no order.
        self._to_add: dict[str, None] = {}
        self._to_remove: dict[str, None] = {}
        self._to_ask: dict[str, Question] = {}
        self._asked: dict[str, Question] = {}
        # When those were sent that are under way.
        self._asked_at: Nanos = 0
        # Those that this stream may not answer; the next one may.
        self._forbidden: dict[str, Question] = {}
        self._token: str | None = None
        self._under_way: pb.WatchRequest | None = None
        self._is_first = True
        # After a refusal: not before then.
        self._add_from: Nanos = 0
        self._ask_from: Nanos = 0

    @property
    def are_answered(self) -> bool:
        """Whether all threads were added, and their states have come."""
        is_adding = self._under_way is not None and (self._under_way.add or self._under_way.all_threads)
        return not self._to_add and not is_adding and not (self._everything and self._is_first)

    @property
    def wait_until(self) -> Nanos:
        """When what was refused for now may be sent again; 0: there is nothing."""
        waiting = ((self._to_add, self._add_from), (self._to_ask, self._ask_from))
        return min((when for wanted, when in waiting if wanted and when), default=0)

    @property
    def asked_since(self) -> Nanos | None:
        """Since when a question has waited for its answer. None: there is none, or the server wants it later."""
        if self._asked:
            return self._asked_at
        return next(iter(self._to_ask.values())).put_at if self._to_ask and not self._ask_from else None

    @property
    def is_setting_up(self) -> bool:
        """Whether the request under way says what only the first one on a stream may say."""
        sent = self._under_way
        return sent is not None and (sent.all_threads or sent.include_elicitations or sent.observer)

    def is_watched(self, thread_id: str) -> bool:
        return thread_id in self._watched

    def opened(self, thread_ids: Iterable[str]) -> None:
        """A stream was opened, on which these threads are to be watched."""
        self._to_ask = self._forbidden | self._asked | self._to_ask
        self._asked, self._forbidden, self._under_way, self._is_first = {}, {}, None, True
        self._token = None
        self._to_remove.clear()
        self._watched.clear()
        self._to_add = dict.fromkeys(thread_ids)
        self._add_from = self._ask_from = 0

    def renew(self, token: str) -> None:
        """Renews the token of the stream."""
        self._token = token

    def add(self, thread_id: str) -> None:
        """Watches one thread more."""
        # Also one that is still watched: each that is added gets its state.
        self._to_remove.pop(thread_id, None)
        self._to_add[thread_id] = None

    def remove(self, thread_id: str) -> None:
        """Watches one thread less."""
        self.forget_question(thread_id)
        self._to_add.pop(thread_id, None)
        if thread_id in self._watched:
            self._to_remove[thread_id] = None

    def ask(self, thread_id: str, since: Nanos, now: Nanos) -> None:
        """Wants its state to be confirmed by a request that is sent at `since` or later."""
        if self.question(thread_id, since) is None:
            self._to_ask[thread_id] = Question(now)

    def question(self, thread_id: str, since: Nanos) -> Question | None:
        """The question about the thread that was sent at `since` or later, or is still to be sent."""
        if thread_id in self._asked and self._asked_at >= since:
            return self._asked[thread_id]
        return self._to_ask.get(thread_id) or self._forbidden.get(thread_id)

    def forget_question(self, thread_id: str) -> None:
        """Nobody waits for the answer any more."""
        for questions in (self._to_ask, self._asked, self._forbidden):
            questions.pop(thread_id, None)

    def next(self, now: Nanos) -> pb.WatchRequest | None:
        """The request to send now. None: one is under way, or there is nothing to say."""
        if self._under_way is not None:
            return None
        request = None
        if self._token is not None and not self._is_first:
            # Alone: refused, it has nothing that must be sent again.
            request, self._token = pb.WatchRequest(token=self._token), None
        elif self._to_ask and now >= self._ask_from:
            request = self._next_questions(now)
        elif self._to_remove or (self._to_add and now >= self._add_from) or (self._everything and self._is_first):
            request = self._next_changes(now)
        if request is not None:
            self._under_way, self._is_first = request, False
        return request

    def answered(self) -> None:
        """The request under way is answered."""
        self._under_way = None
        self._asked = {}

    def sent_at(self, thread_id: str) -> Nanos | None:
        """When the question that is being answered was sent."""
        return self._asked_at if thread_id in self._asked else None

    def refused(self, forbidden: set[str], again_at: Nanos) -> list[str]:
        """The request under way was refused: without `forbidden` it is sent again, at that moment. Says which threads are not
        watched therefore.
        """
        request, self._under_way = self._under_way, None
        if request is None:
            return []
        self._forbidden |= {each: self._asked.pop(each) for each in forbidden if each in self._asked}
        self._to_ask, self._asked = self._asked | self._to_ask, {}
        if request.confirm:
            self._ask_from = again_at
        elif request.add:
            self._add_from = again_at
        self._to_remove |= dict.fromkeys(request.remove)
        # Those that were removed meanwhile need neither.
        wanted = [thread_id for thread_id in request.add if self._to_remove.pop(thread_id, self) is self]
        self._watched.difference_update(request.add)
        self._to_add = dict.fromkeys(each for each in wanted if each not in forbidden) | self._to_add
        return wanted

    def _next_questions(self, now: Nanos) -> pb.WatchRequest:
        self._asked_at, self._ask_from = now, 0
        for thread_id in list(islice(self._to_ask, MOST_IDS)):
            question = self._asked[thread_id] = self._to_ask.pop(thread_id)
            question.first_sent_at = question.first_sent_at or now
        return pb.WatchRequest(confirm=self._asked)

    def _next_changes(self, now: Nanos) -> pb.WatchRequest:
        remove = list(islice(self._to_remove, MOST_IDS))
        add = list(islice(self._to_add, MOST_IDS - len(remove))) if now >= self._add_from else []
        for thread_id in remove:
            del self._to_remove[thread_id]
        for thread_id in add:
            del self._to_add[thread_id]
        if add:
            self._add_from = 0
        self._watched.difference_update(remove)
        self._watched.update(add)
        request = pb.WatchRequest(add=add, remove=remove)
        if self._is_first:
            request.MergeFrom(self._setup)
        return request
