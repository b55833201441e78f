"""Durations: seconds in the public API, whole nanoseconds internally.

Internal moments and durations are integers, so that sums are exact and two ways to compute a moment agree. A moment is a
reading of the monotonic clock. It is not affected by changes of the wall clock, and stands still while the machine sleeps.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TypeAlias

from ..errors import InvalidField

Nanos: TypeAlias = int
"""A moment or a duration, in nanoseconds."""

Seconds: TypeAlias = float | timedelta
"""A duration in the public API: a number of seconds, or a timedelta."""

SECOND: Nanos = 1_000_000_000
MILLISECOND: Nanos = 1_000_000

MAX_DURATION: Nanos = 315_576_000_000 * SECOND
"""The longest duration of google.protobuf.Duration: 10,000 years."""

_MAX_DEADLINE: Nanos = 30 * 365 * 86_400 * SECOND


def to_nanos(length: Seconds) -> Nanos:
    """`length` in nanoseconds, limited to 10,000 years in both directions.

    Raises ValueError for NaN.
    """
    if isinstance(length, timedelta):
        return _clamped(((length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds) * 1_000)
    if length != length:
        raise ValueError("a length of time cannot be NaN")
    if abs(length) > MAX_DURATION / SECOND:
        return MAX_DURATION if length > 0 else -MAX_DURATION
    return _clamped(round(length * SECOND))


def read_nanos(argument: str, length: Seconds) -> Nanos:
    """`length` in nanoseconds, as `to_nanos`. Raises InvalidField with the name of the argument if it is not a length."""
    try:
        return to_nanos(length)
    except TypeError:
        problem = f"has the type {type(length).__name__}"
    except ValueError:
        problem = f"is {length}"
    raise InvalidField.of(argument, f"{problem}; allowed: a number of seconds or a timedelta")


def to_deadline(length: Seconds) -> Nanos:
    """`length` as a deadline, limited to 30 years, since gRPC's own arithmetic would overflow."""
    return min(read_nanos("deadline", length), _MAX_DEADLINE)


def to_seconds(length: Nanos) -> float:
    """`length` in seconds."""
    return length / SECOND


def to_wait(timeout: Seconds | None) -> float | None:
    """`timeout` in seconds, limited to the longest wait of `threading`. None: no timeout."""
    return None if timeout is None else min(to_seconds(read_nanos("timeout", timeout)), threading.TIMEOUT_MAX)


def in_words(length: Nanos) -> str:
    """`length` as text for people, for example "1.5 s"."""
    return f"{length / SECOND:g} s"


def _clamped(length: Nanos) -> Nanos:
    return max(-MAX_DURATION, min(length, MAX_DURATION))
