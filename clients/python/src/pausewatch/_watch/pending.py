"""The events that a slow reader has not read yet. Pure.

1. At most one state per thread is pending, the latest: memory is bounded by the number of threads, not of changes.
2. A state that replaces a pending one keeps its flags: `gap` and `changed`.
3. At most one `SnapshotComplete` and one `Disconnected` are pending. A disconnect removes a pending `SnapshotComplete`.
   A disconnect replaces a pending one and takes over its threads, except those with a state after it: they are connected again.
"""

from __future__ import annotations

from itertools import dropwhile

from .events import Disconnected, Event, SnapshotComplete, State

_COMPLETE = object()
_DISCONNECTED = object()


class Pending:
    """The unread events, in order."""

    def __init__(self) -> None:
        # The keys are thread ids, `_COMPLETE` and `_DISCONNECTED`; a dict keeps their order.
        self._events: dict[object, Event] = {}

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Adds an event. It replaces the pending event that it supersedes."""
        match event:
            case State():
                self._put_state(event)
            case SnapshotComplete():
                self._events.pop(_COMPLETE, None)
                self._events[_COMPLETE] = event
            case Disconnected():
                self._events.pop(_COMPLETE, None)
                ids = event.thread_ids | self._still_disconnected()
                self._events.pop(_DISCONNECTED, None)
                self._events[_DISCONNECTED] = Disconnected(ids, event.error, event.silent_for)

    def take(self) -> Event:
        """Removes and returns the oldest event. Raises KeyError if there is none."""
        key = next(iter(self._events), None)
        return self._events.pop(key)

    def _still_disconnected(self) -> frozenset[str]:
        """The threads of the pending disconnect that have no state after it."""
        before = self._events.get(_DISCONNECTED)
        if not isinstance(before, Disconnected):
            return frozenset()
        behind = dropwhile(lambda key: key is not _DISCONNECTED, self._events)
        return before.thread_ids.difference(behind)

    def _put_state(self, event: State) -> None:
        key = event.state.thread_id
        before = self._events.get(key)
        if isinstance(before, State):
            event = State(event.state, before.gap or event.gap, before.changed or event.changed)
        # The first state after a disconnect must be read after the disconnect.
        if event.gap and _DISCONNECTED in self._events:
            self._events.pop(key, None)
        self._events[key] = event
