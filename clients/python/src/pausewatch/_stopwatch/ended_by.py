"""The limit that ended a stopwatch."""

from __future__ import annotations

from enum import Enum


class EndedBy(Enum):
    """The limit that ended a stopwatch."""

    LIMIT = "limit"
    """The limit on unpaused time: it was used up, and the coordinator has confirmed that the thread runs, or was unreachable for
    the whole disconnect grace."""
    MAX_WALL = "max_wall"
    """The limit on wall time, which no pause extends."""
