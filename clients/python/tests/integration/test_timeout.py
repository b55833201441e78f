"""`async with pausable_timeout`: asyncio.timeout with a clock that stands still."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.server import Server

import pausewatch as pw
from pausewatch import aio


async def test_a_block_that_exceeds_its_limit_is_ended(async_client: pw.AsyncClient) -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError) as error:
        async with async_client.pausable_timeout(0.1) as timeout:
            await asyncio.sleep(60)
    assert timeout.expired()
    assert 0.1 <= time.monotonic() - started < 20
    # asyncio names it as the cause since 3.11.3 only.
    assert isinstance(error.value.__context__, asyncio.CancelledError)


async def test_a_block_reports_which_limit_ended_it(async_client: pw.AsyncClient) -> None:
    async with async_client.hold():
        with pytest.raises(TimeoutError):
            async with async_client.pausable_timeout(0.1, max_wall=0.3) as paused:
                await asyncio.sleep(60)
    with pytest.raises(TimeoutError):
        async with async_client.pausable_timeout(0.1, max_wall=60) as running:
            await asyncio.sleep(60)
    async with async_client.pausable_timeout(60, max_wall=60) as finished:
        pass
    with pytest.raises(TimeoutError):
        async with async_client.pausable_timeout(60, max_wall=0) as at_once:
            await asyncio.sleep(60)
    ended = [timeout.ended_by for timeout in (paused, running, finished, at_once)]
    assert ended == [pw.EndedBy.MAX_WALL, pw.EndedBy.LIMIT, None, pw.EndedBy.MAX_WALL]


async def test_a_block_within_its_limit_is_not_ended(async_client: pw.AsyncClient) -> None:
    async with async_client.pausable_timeout(60) as timeout:
        await asyncio.sleep(0.01)
    assert not timeout.expired()
    assert timeout.stopwatch.elapsed() >= 0.01
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


class _Output:
    """What a command's task returns."""


async def test_an_ended_block_releases_its_task_and_the_tasks_result(async_client: pw.AsyncClient) -> None:
    async def command() -> _Output:
        async with async_client.pausable_timeout(60):
            return _Output()

    output = weakref.ref(await asyncio.create_task(command()))
    # Tasks that wait for something keep their last results on the stack for one turn of the loop.
    await asyncio.sleep(0)
    gc.collect()
    assert output() is None


async def test_a_closed_client_keeps_no_connection(server: Server, thread_id: str) -> None:
    client = pw.AsyncClient.from_env(address=server.address, thread_id=thread_id)
    async with client.pausable_timeout(60) as timeout:
        watch, hold = client.watch(), client.hold()
        await hold.open()
        await anext(watch)
    assert client._connection._opened is not None
    channel = weakref.ref(client._connection._opened.route.channel)
    await client.close()
    gc.collect()
    # All of these are still here.
    assert (timeout.expired(), hold.lease, watch) == (False, pw.Lease.OVERDUE, watch)
    assert channel() is None, "a channel of grpc.aio ends its connection when nobody has it any more"


async def test_timeouts_of_a_closed_client_run_out(server: Server, thread_id: str) -> None:
    client = pw.AsyncClient.from_env(address=server.address, thread_id=thread_id)
    with pytest.raises(TimeoutError):
        async with client.pausable_timeout(0.5) as timeout:
            await client.close()
            await asyncio.sleep(60)
    assert timeout.stopwatch.elapsed() >= 0.5
    with pytest.raises(RuntimeError, match="closed"):
        async with client.pausable_timeout(1):
            pass


async def test_it_is_rescheduled_like_asyncio_timeout(async_client: pw.AsyncClient) -> None:
    loop = asyncio.get_running_loop()
    timeout = async_client.pausable_timeout(60)
    for early in (timeout.when, lambda: timeout.reschedule(None)):
        with pytest.raises(RuntimeError, match="not been entered"):
            early()
    with pytest.raises(TimeoutError):
        async with timeout:
            when = timeout.when()
            assert when is not None
            assert 55 < when - loop.time() <= 60
            timeout.reschedule(None)
            assert timeout.when() is None
            async with async_client.hold():
                timeout.reschedule(loop.time() + 0.5)
                while not timeout.stopwatch.is_paused:  # noqa: ASYNC110 # The timeout has no such event.
                    await asyncio.sleep(0.001)
                charged = timeout.stopwatch.elapsed()
                await asyncio.sleep(1)
                assert timeout.stopwatch.elapsed() == charged, "what was rescheduled is paused too"
            await asyncio.sleep(60)
    with pytest.raises(RuntimeError, match="has ended"):
        timeout.reschedule(loop.time() + 1)
    with pytest.raises(TimeoutError):
        async with async_client.pausable_timeout(None) as endless:
            endless.reschedule(loop.time() - 1)
            await asyncio.sleep(60)


async def test_g3_the_time_of_a_question_is_not_charged(async_client: pw.AsyncClient) -> None:
    started = time.monotonic()
    async with async_client.pausable_timeout(60) as timeout:
        async with async_client.hold():
            while not timeout.stopwatch.is_paused:  # noqa: ASYNC110 # The timeout has no such event.
                await asyncio.sleep(0.001)
            await asyncio.sleep(1.5)
    assert timeout.stopwatch.elapsed() <= time.monotonic() - started - 1.5


async def test_a_pause_of_its_own_is_not_charged(async_client: pw.AsyncClient) -> None:
    async with async_client.pausable_timeout(1) as timeout:
        with timeout.stopwatch.pause(), timeout.stopwatch.pause():
            await asyncio.sleep(1.2)
        assert not timeout.stopwatch.is_paused
    assert timeout.stopwatch.elapsed() < 1


async def test_the_inner_of_two_timeouts_ends_its_own_block_only(async_client: pw.AsyncClient) -> None:
    async with async_client.pausable_timeout(60) as outer:
        with pytest.raises(TimeoutError):
            async with async_client.pausable_timeout(0.05):
                await asyncio.sleep(60)
        await asyncio.sleep(0)
    assert not outer.expired()


async def test_the_outer_of_two_timeouts_ends_both(async_client: pw.AsyncClient) -> None:
    reached = False
    with pytest.raises(TimeoutError):
        async with async_client.pausable_timeout(0.05) as outer:
            async with async_client.pausable_timeout(60) as inner:
                await asyncio.sleep(60)
            reached = True
    assert (outer.expired(), inner.expired(), reached) == (True, False, False)


async def test_it_nests_with_asyncio_timeout(async_client: pw.AsyncClient) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05) as outer:
            async with async_client.pausable_timeout(60) as inner:
                await asyncio.sleep(60)
    assert (outer.expired(), inner.expired()) == (True, False)


async def test_a_cancellation_from_outside_does_not_count_as_a_timeout(async_client: pw.AsyncClient) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with async_client.pausable_timeout(60):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_block_is_raised_unchanged(async_client: pw.AsyncClient) -> None:
    with pytest.raises(KeyError):
        async with async_client.pausable_timeout(60):
            raise KeyError


async def test_a_block_that_ends_at_the_moment_of_its_expiry_does_not_raise(async_client: pw.AsyncClient) -> None:
    problems: list[str] = []

    def note(_: asyncio.AbstractEventLoop, problem: dict[str, Any]) -> None:
        # gRPC's poller serves the loops of all tests, and may hear late of a call whose loop is closed: not of this one.
        if "PollerCompletionQueue" not in problem["message"]:
            problems.append(problem["message"])

    asyncio.get_running_loop().set_exception_handler(note)
    async with async_client.pausable_timeout(0.01) as timeout:
        await timeout.stopwatch.wait_expired()
    await asyncio.sleep(0.01)
    assert (timeout.stopwatch.is_expired, problems) == (True, [])


async def test_without_a_limit_it_never_ends_the_block(async_client: pw.AsyncClient) -> None:
    async with async_client.pausable_timeout(None) as timeout:
        await asyncio.sleep(0.01)
    assert timeout.stopwatch.remaining() is None


async def test_misuse_is_reported(async_client: pw.AsyncClient) -> None:
    timeout = async_client.pausable_timeout(1)
    with pytest.raises(RuntimeError, match="has not been entered"):
        _ = timeout.stopwatch
    with pytest.raises(pw.InvalidField):
        async with async_client.pausable_timeout(1, thread_id=""):
            pytest.fail("it was entered")
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


def test_the_clients_of_closed_loops_are_released_by_one_thread_at_a_time() -> None:
    # Both threads are to look at a loop that was closed before either forgets it; the lock keeps the second one out.
    both_look = threading.Barrier(2)

    class ClosedLoop:
        def is_closed(self) -> bool:
            with contextlib.suppress(threading.BrokenBarrierError):
                both_look.wait(0.3)
            return True

    async def work() -> None:
        pw.pausable_timeout(60, thread_id="t")

    closed: Any = ClosedLoop()
    client = pw.AsyncClient.from_env()
    aio._default_clients[closed] = client, aio._closing(client)
    with ThreadPoolExecutor(2) as threads:
        for result in [threads.submit(asyncio.run, work()) for _ in range(2)]:
            result.result()
    assert closed not in aio._default_clients


def test_without_a_client_the_running_loop_shares_one(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAUSEWATCH_ADDRESS", server.address)

    async def work() -> int:
        async with pw.pausable_timeout(60, thread_id="shared"), pw.pausable_timeout(60, thread_id="shared"):
            async with pw.AsyncClient.from_env() as other, asyncio.timeout(30):
                while True:
                    opened = await other.increment_elicitation("shared")
                    await other.decrement_elicitation("shared")
                    if opened.watchers > 0:
                        return opened.watchers

    for _ in range(2):
        assert asyncio.run(work()) == 1
