"""What a watch tells."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ..errors import CallError
    from ..messages import PauseState


@dataclass(frozen=True, slots=True)
class State:
    """The state of a thread: the first one, a change, or the first one after a break."""

    state: PauseState
    """The state; its `elicitations` are filled if the watch asked for them."""
    gap: bool
    """Changes may have been missed before this state: it is the first of its thread, or the first after a break."""
    changed: bool
    """Whether the revision or the epoch differs from the last delivered one. False only after a gap in which nothing changed."""


@dataclass(frozen=True, slots=True)
class SnapshotComplete:
    """The state of every watched thread has been delivered; changes follow. Repeated after every reconnection."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """From here on nothing is known of these threads until their next state comes. The watch is trying again.

    With a PermissionDenied: the token does not open these threads. The others go on without them.
    """

    thread_ids: frozenset[str]
    """The threads; empty for a watch of every thread, where it is all of them."""
    error: CallError
    """Why."""
    silent_for: timedelta = timedelta(0)
    """How long ago the last message came, if the connection died in silence; zero if its end was noticed at once."""


Event: TypeAlias = State | SnapshotComplete | Disconnected
"""One event of a watch."""
