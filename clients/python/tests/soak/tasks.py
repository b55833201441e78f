"""The asynchronous client: tasks are cancelled. One event loop for each round."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pausewatch as pw

from .round import HANG_SECONDS, TTL, Round, rounds


async def holds(game: Round, client: pw.AsyncClient) -> None:
    while not game.is_over:
        thread_id, moment = f"{game.prefix}hold-{game.chance.randrange(20)}", game.chance.randrange(3)
        game.count("holds")
        hold = client.hold(thread_id, ttl=TTL)
        try:
            if not await cancelled(game, hold.open, moment == 1) and await cancelled(game, hold.release, moment == 2):
                await hold.release()
        except (pw.TransientError, pw.ElicitationUnknown):
            game.count("unknown")


async def cancelled(game: Round, work: Callable[[], Awaitable[object]], is_cancelled: bool) -> bool:
    async def run() -> None:
        await work()

    task = asyncio.create_task(run())
    if is_cancelled:
        await asyncio.sleep(game.chance.uniform(0, 0.02))
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        game.count("cancelled")
        return True
    return False


async def bursts(game: Round, client: pw.AsyncClient) -> None:
    while not game.is_over:
        tasks = [asyncio.create_task(client.get_pause_state(f"{game.prefix}burst")) for _ in range(100)]
        await asyncio.sleep(0.002)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(1)


async def short_lives(game: Round) -> None:
    while not game.is_over:
        client = pw.AsyncClient(game.config())
        closing = asyncio.create_task(close_soon(client, game.chance.uniform(0, 0.05)))
        with suppress(RuntimeError):
            client.watch([f"{game.prefix}short-{number}" for number in range(3)])
            client.stopwatch(60, thread_id=f"{game.prefix}short-0")
            try:
                await client.hold(f"{game.prefix}short-hold", ttl=TTL).open()
                game.count("unknown")
            except pw.TransientError:
                game.count("unknown")
        await closing


async def close_soon(client: pw.AsyncClient, delay: float) -> None:
    await asyncio.sleep(delay)
    await client.close()


async def deadlines(game: Round, client: pw.AsyncClient) -> None:
    while not game.is_over:
        limits = [game.chance.uniform(0.2, 1) for _ in range(game.deadlines)]
        tasks = [timed(game, client, limit, f"{game.prefix}free-{number % 20}") for number, limit in enumerate(limits)]
        await asyncio.gather(*tasks, *(bare(game, limit) for limit in limits))


async def timed(game: Round, client: pw.AsyncClient, limit: float, thread_id: str) -> None:
    try:
        async with asyncio.timeout(HANG_SECONDS) as hang:
            began = time.monotonic()
            try:
                async with client.pausable_timeout(limit, thread_id=thread_id):
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                game.expired(limit, time.monotonic() - began)
    except TimeoutError:
        assert hang.expired()
        game.count("hangs")


async def bare(game: Round, limit: float) -> None:
    began = time.monotonic()
    await asyncio.sleep(limit)
    game.greatest("bare_late_ms", 1_000 * (time.monotonic() - began - limit))


async def person(game: Round, client: pw.AsyncClient) -> None:
    thread_id = f"{game.prefix}person"
    hold = client.hold(thread_id, ttl=TTL)
    try:
        await hold.open()
    except pw.TransientError:
        game.count("unknown")
        return
    async with client.stopwatch(0.3, thread_id=thread_id) as stopwatch, client.watch([thread_id]) as watch:
        reading = asyncio.create_task(disconnects(game, watch))
        await asyncio.sleep(max(0.6, game.seconds - 1))
        reading.cancel()
        if stopwatch.is_expired:
            game.count("false_expiries")
        try:
            await hold.release()
        except pw.TransientError:
            game.count("unknown")
        except pw.PausewatchError:
            game.count("false_expiries")
        try:
            await asyncio.wait_for(stopwatch.wait_expired(), HANG_SECONDS)
            if stopwatch.elapsed() < 0.295:
                game.count("early")
        except TimeoutError:
            game.count("hangs")


async def disconnects(game: Round, watch: pw.AsyncWatch) -> None:
    async for event in watch:
        if isinstance(event, pw.Disconnected):
            game.count("disconnects")


async def clock(game: Round, client: pw.AsyncClient) -> None:
    async with client.stopwatch(60, thread_id=f"{game.prefix}clock") as stopwatch:
        began, before = time.monotonic(), stopwatch.elapsed()
        outer = time.monotonic()
        with stopwatch.pause():
            inner = time.monotonic()
            await asyncio.sleep(game.chance.uniform(0.1, 0.5))
            inner = time.monotonic() - inner
        outer = time.monotonic() - outer
        charged, wall = stopwatch.elapsed() - before, time.monotonic() - began
        game.clock_error(wall - charged, inner, outer)
        if not game.disturbed:
            await awaited(game, client, stopwatch)


async def awaited(game: Round, client: pw.AsyncClient, stopwatch: pw.AsyncStopwatch) -> None:
    child = f"{game.prefix}child"
    with stopwatch.await_thread(child):
        before, began = stopwatch.elapsed(), time.monotonic()
        hold = client.hold(child, ttl=TTL)
        opening = time.monotonic()
        await hold.open()
        opened = time.monotonic()
        await asyncio.sleep(game.chance.uniform(0.1, 0.5))
        releasing = time.monotonic()
        await hold.release()
        released = time.monotonic()
        while stopwatch.is_paused:  # noqa: ASYNC110  # A stopwatch does not notify of the end of a pause.
            await asyncio.sleep(0.001)
        off = (time.monotonic() - began) - (stopwatch.elapsed() - before)
        outside = max(0.0, (releasing - opened) - off, off - (released - opening))
        game.greatest("await_error_ms", 1_000 * outside)


async def play(game: Round) -> None:
    client = pw.AsyncClient(game.config())
    works = [holds(game, client) for _ in range(4)] + [work(game, client) for work in (deadlines, person, clock)]
    if game.bursts:
        works.append(bursts(game, client))
    await asyncio.gather(*works, short_lives(game))
    await client.close()
    gc.collect()
    give_up = time.monotonic() + HANG_SECONDS
    while len(asyncio.all_tasks()) > 1 and time.monotonic() < give_up:  # noqa: ASYNC110  # These are gRPC's own.
        await asyncio.sleep(0.01)
    game.answer(len(asyncio.all_tasks()))


for each in rounds():
    asyncio.run(play(each))
