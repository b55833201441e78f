"""Which limit of a stopwatch ended it."""

from __future__ import annotations

from enum import Enum


class EndedBy(Enum):
    """Which limit of a stopwatch ended it."""

    LIMIT = "limit"
    """Its limit on unpaused time was used up, and the coordinator has confirmed that the thread runs."""
    MAX_WALL = "max_wall"
    """Its limit on wall time was over, which no pause extends."""
