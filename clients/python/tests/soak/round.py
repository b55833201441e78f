"""What both programs share: the order of a round, and its counts."""

from __future__ import annotations

import json
import logging
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from pausewatch import Config

HANG_SECONDS = 30.0
"""The longest wait for anything."""
TTL = 60.0


class Round:
    def __init__(self, order: dict[str, Any]) -> None:
        self.number: int = order["round"]
        self.seconds: float = order["seconds"]
        self.end: float = time.monotonic() + self.seconds
        self.deadlines: int = order["deadlines"]
        self.prefix: str = order["prefix"]
        self.disturbed: bool = order["disturbed"]
        self.bursts: bool = order["bursts"]
        self.chance = random.Random(order["seed"])
        self._settings: dict[str, str] = order["settings"]
        self._lock = threading.Lock()
        self._counts: dict[str, float] = dict.fromkeys(
            ["holds", "cancelled", "unknown", "expired", "early", "false_expiries", "hangs", "disconnects"], 0
        )
        self._greatest: dict[str, float] = dict.fromkeys(["late_ms", "bare_late_ms", "clock_error_ms", "await_error_ms"], 0.0)

    def config(self) -> Config:
        given = self._settings
        return Config.load(address=given["address"], token=given.get("token"), tls_ca=given.get("tls_ca"), environ={})

    @property
    def is_over(self) -> bool:
        return self.end <= time.monotonic()

    def count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def greatest(self, name: str, value: float) -> None:
        with self._lock:
            self._greatest[name] = max(self._greatest[name], value)

    def expired(self, limit: float, after: float) -> None:
        self.count("expired")
        self.greatest("late_ms", 1_000 * (after - limit))
        if after < limit - 0.005:
            self.count("early")

    def clock_error(self, off: float, inner: float, outer: float) -> None:
        """`off`: how long a pause stopped the clock; `inner`, `outer`: measured inside and outside of the calls around it."""
        self.greatest("clock_error_ms", 1_000 * max(0.0, inner - off, off - outer))

    def answer(self, tasks: int) -> None:
        print(json.dumps({"round": self.number, "tasks": tasks} | self._counts | self._greatest), flush=True)


def rounds() -> Iterator[Round]:
    """One for each line of standard input."""
    # What the server refuses while it is disturbed is expected.
    logging.getLogger("pausewatch").setLevel(logging.CRITICAL)
    for line in sys.stdin:
        yield Round(json.loads(line))
