"""The events of a watch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ..errors import CallError
    from ..messages import PauseState


@dataclass(frozen=True, slots=True)
class State:
    """The state of a thread: its first one, a change, or the first one after a disconnect."""

    state: PauseState
    """The state; its `elicitations` are filled if the watch was made with `include_elicitations`."""
    gap: bool
    """Changes may have been missed before this state: it is the first of its thread, or the first after a disconnect."""
    changed: bool
    """Whether the revision or the epoch differs from the last delivered one. False only after a gap in which nothing changed."""


@dataclass(frozen=True, slots=True)
class SnapshotComplete:
    """The state of every watched thread has been delivered, except of threads that were refused; changes follow. Repeated after
    every reconnect.
    """


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The states of these threads are unknown until the next one arrives. The watch reconnects by itself.

    If `error` is a PermissionDenied, the token may not read these threads. The watch continues with the other threads.
    """

    thread_ids: frozenset[str]
    """The threads. Empty for a watch of all threads: then every thread is disconnected."""
    error: CallError
    """The cause."""
    silent_for: timedelta = timedelta(0)
    """The time since the last message, if the connection was silent until it was given up; zero if it ended at once."""


Event: TypeAlias = State | SnapshotComplete | Disconnected
"""One event of a watch."""
