"""What waits for a slow reader. Pure.

1. Of each thread at most one state waits, the latest: memory is bounded by the threads, never by the changes.
2. A state that replaces one that waits keeps what that one had to say: `gap`, and `changed`.
3. At most one `SnapshotComplete` and one `Disconnected` wait; a break takes back that everything has been told.
"""

from __future__ import annotations

from .events import Disconnected, Event, SnapshotComplete, State

_COMPLETE = object()
_BROKEN = object()


class Pending:
    """The events that nobody has read yet, in order."""

    def __init__(self) -> None:
        # The keys are thread ids and the two marks; a dict keeps their order.
        self._events: dict[object, Event] = {}

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Adds an event, in the place of what it makes old."""
        match event:
            case State():
                self._put_state(event)
            case SnapshotComplete():
                self._events.pop(_COMPLETE, None)
                self._events[_COMPLETE] = event
            case Disconnected():
                self._events.pop(_COMPLETE, None)
                before = self._events.pop(_BROKEN, None)
                ids = event.thread_ids | (before.thread_ids if isinstance(before, Disconnected) else frozenset())
                self._events[_BROKEN] = Disconnected(ids, event.error, event.silent_for)

    def take(self) -> Event:
        """The oldest one. Raises KeyError if there is none."""
        key = next(iter(self._events), None)
        return self._events.pop(key)

    def _put_state(self, event: State) -> None:
        key = event.state.thread_id
        before = self._events.get(key)
        if isinstance(before, State):
            event = State(event.state, before.gap or event.gap, before.changed or event.changed)
        # A state that is told after a break must be read after it.
        if event.gap and _BROKEN in self._events:
            self._events.pop(key, None)
        self._events[key] = event
