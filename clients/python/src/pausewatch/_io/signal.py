"""Wakes tasks. A signal has no value: each task reads the state itself. It wakes every task that waits."""

from __future__ import annotations

import asyncio


class Signal:
    """Each `fire` wakes every task that waits at that moment."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def fire(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()
