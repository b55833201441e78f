"""Lengths of time: seconds outside, whole nanoseconds inside.

Inside, moments and lengths are integers, so that a sum is exact and two ways to compute a moment agree. A moment is a
reading of the monotonic clock, which neither a changed wall clock nor a sleep of the machine moves.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TypeAlias

Nanos: TypeAlias = int
"""A moment or a length, in nanoseconds."""

Seconds: TypeAlias = float | timedelta
"""A length as callers give it: a number of seconds, or a timedelta."""

SECOND: Nanos = 1_000_000_000
MILLISECOND: Nanos = 1_000_000

LONGEST: Nanos = 315_576_000_000 * SECOND
"""The longest length that google.protobuf.Duration can say: 10,000 years."""

_LONGEST_DEADLINE: Nanos = 30 * 365 * 86_400 * SECOND


def to_nanos(length: Seconds) -> Nanos:
    """`length` in nanoseconds; what is longer than 10,000 years, either way, is cut to that.

    Raises ValueError for NaN.
    """
    if isinstance(length, timedelta):
        return _clamped(((length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds) * 1_000)
    if length != length:
        raise ValueError("a length of time cannot be NaN")
    if abs(length) > LONGEST / SECOND:
        return LONGEST if length > 0 else -LONGEST
    return _clamped(round(length * SECOND))


def to_deadline(length: Seconds) -> Nanos:
    """`length` as a deadline: what is longer than 30 years is cut to that, since gRPC's own arithmetic has an end."""
    return min(to_nanos(length), _LONGEST_DEADLINE)


def to_seconds(length: Nanos) -> float:
    """`length` in seconds."""
    return length / SECOND


def to_wait(timeout: Seconds | None) -> float | None:
    """`timeout` in seconds, as the waits of `threading` take it, which have a limit. None: for ever."""
    return None if timeout is None else min(to_seconds(to_nanos(timeout)), threading.TIMEOUT_MAX)


def in_words(length: Nanos) -> str:
    """`length` for people, as "1.5 s"."""
    return f"{length / SECOND:g} s"


def _clamped(length: Nanos) -> Nanos:
    return max(-LONGEST, min(length, LONGEST))
