"""What differs between the two clients: how one waits, and what a block looks like."""

from __future__ import annotations

import asyncio
import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pausewatch as pw

if TYPE_CHECKING:
    from collections.abc import Callable

    from .wire import Json

_MOST_STEPS_AT_ONCE = 512


class Threads:
    """The synchronous client, each step on a thread of its own."""

    client = pw.Client

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MOST_STEPS_AT_ONCE)

    async def do(self, work: Callable[..., Any], *arguments: object, **named: object) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*arguments, **named))

    async def next(self, watch: pw.Watch, within: float) -> pw.Event | None:
        event: pw.Event | None = await self.do(watch.next, within)
        return event

    async def hold_block(self, hold: pw.Hold, stay: float, error: Exception | None) -> None:
        def block() -> None:
            with hold:
                time.sleep(stay)
                if error is not None:
                    raise error

        await self.do(block)

    async def timeout_block(self, client: pw.Client, limit: float, work: float, named: Json) -> pw.Stopwatch:
        def block() -> pw.Stopwatch:
            with client.stopwatch(limit, **named) as stopwatch:
                stopwatch.wait_expired(work)
            return stopwatch

        ended: pw.Stopwatch = await self.do(block)
        return ended


class Tasks:
    """The asynchronous client, each step in a task of its own."""

    client = pw.AsyncClient

    async def do(self, work: Callable[..., Any], *arguments: object, **named: object) -> Any:
        result = work(*arguments, **named)
        return await result if inspect.isawaitable(result) else result

    async def next(self, watch: pw.AsyncWatch, within: float) -> pw.Event | None:
        try:
            async with asyncio.timeout(within):
                return await anext(watch)
        except TimeoutError:
            return None

    async def hold_block(self, hold: pw.AsyncHold, stay: float, error: Exception | None) -> None:
        async with hold:
            await asyncio.sleep(stay)
            if error is not None:
                raise error

    async def timeout_block(self, client: pw.AsyncClient, limit: float, work: float, named: Json) -> pw.PausableTimeout:
        timeout = client.pausable_timeout(limit, **named)
        with suppress(TimeoutError):
            async with timeout:
                await asyncio.sleep(work)
        return timeout
