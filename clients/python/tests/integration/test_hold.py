"""Holds in their blocks, against a real server."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.proxy import Proxy
from support.server import Server
from support.service import Service, Serving

import pausewatch as pw


class Own(Exception):
    """An error of the block's own."""


def becomes(client: pw.Client, count: int, thread_id: str | None = None) -> None:
    """Waits until the thread has so many open elicitations, as its watch tells."""
    with client.watch([thread_id or client.config.thread_id or ""]) as watch:
        for event in watch:
            if isinstance(event, pw.State) and event.state.count == count:
                return


def test_a_block_holds_and_closes(client: pw.Client) -> None:
    leases = []
    with client.hold(reason="May I?", holder="test") as hold:
        assert (hold.opened.count, hold.elicitation.reason, hold.elicitation.holder) == (1, "May I?", "test")
        leases.append(hold.lease)
        assert client.get_pause_state().count == 1
    leases.append(hold.lease)
    assert leases == [pw.Lease.HELD, pw.Lease.RELEASED]
    assert client.get_pause_state().count == 0


def test_a_block_that_raises_closes_too_and_keeps_its_error(client: pw.Client) -> None:
    with pytest.raises(Own), client.hold():
        raise Own
    assert client.get_pause_state().count == 0


def test_an_answer_after_the_lease_ended_raises_its_own_type(client: pw.Client) -> None:
    with pytest.raises(pw.ElicitationReleased), client.hold() as hold:
        client.decrement_elicitation(elicitation_id=hold.elicitation.elicitation_id)
    assert hold.lease is pw.Lease.RELEASED


def test_a_late_answer_does_not_hide_the_blocks_own_error(client: pw.Client) -> None:
    with pytest.raises(Own) as error, client.hold() as hold:
        client.decrement_elicitation(elicitation_id=hold.elicitation.elicitation_id)
        raise Own
    [note] = error.value.__notes__
    assert note.startswith("pausewatch: ElicitationReleased: ")


def test_a_release_within_the_block_answers_and_then_leaving_raises_nothing(client: pw.Client) -> None:
    with client.hold() as hold:
        client.decrement_elicitation(elicitation_id=hold.elicitation.elicitation_id)
        assert hold.release() == hold.release() == pw.Release(pw.Ending.RELEASED)


def test_concurrent_releases_decrement_once(client: pw.Client) -> None:
    client.increment_elicitation()
    hold = client.hold().open()
    releases: list[pw.Release] = []
    threads = [threading.Thread(target=lambda: releases.append(hold.release())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(release.ending, release.count) for release in releases} == {(pw.Ending.CLOSED, 1)}
    assert client.get_pause_state().count == 1


def test_a_hold_is_opened_only_once_and_reading_it_before_raises(client: pw.Client) -> None:
    hold = client.hold()
    for use in (lambda: hold.opened, lambda: hold.lease, hold.release, hold.lost):
        with pytest.raises(RuntimeError, match="this hold is not open"):
            use()
    with hold, pytest.raises(RuntimeError, match="opened before"):
        hold.open()


def test_lost_waits_for_the_end_of_the_lease_or_its_timeout(client: pw.Client) -> None:
    with client.hold(ttl=3) as hold:
        assert hold.lost(timeout=0.01) is pw.Lease.HELD
        client.decrement_elicitation(elicitation_id=hold.elicitation.elicitation_id)
        assert hold.lost(timeout=10) is pw.Lease.RELEASED
        hold.release()


def test_a_garbage_collected_hold_is_closed(client: pw.Client) -> None:
    client.hold().open()
    gc.collect()
    becomes(client, 0)


def test_a_hold_that_cannot_be_opened_raises_the_calls_own_error(client: pw.Client) -> None:
    with pytest.raises(pw.InvalidField) as error, client.hold(ttl=0.1):
        pytest.fail("it was entered")
    assert error.value.field == "ttl"


def test_an_interrupted_open_closes_what_it_opened(client: pw.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run = client._connection.run_in_background

    def interrupted(work: Callable[[], Any]) -> Any:
        run(work)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client._connection, "run_in_background", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.hold().open()
    becomes(client, 0)
    assert client.get_pause_state().revision > 0, "it had been open"


def test_a_failed_release_is_raised_and_retried_in_the_background(tmp_path: Path) -> None:
    with Server(tmp_path) as server, pw.Client.from_env(address=server.address, deadline=0.3) as client:
        with pytest.raises(pw.TransientError), client.hold("t", ttl=20):
            server.kill()
        server.start()
        becomes(client, 0, "t")


def test_a_background_release_is_retried_by_a_client_without_retries_too() -> None:
    with Serving() as serving, pw.Client.from_env(address=serving.address, retries=0) as client:
        serving.service.unavailable_decrements = 3
        with pytest.raises(pw.Unavailable), client.hold("t"):
            pass
        assert_released_by(4, serving.service)


async def test_a_background_release_is_retried_by_an_async_client_without_retries_too() -> None:
    with Serving() as serving:
        async with pw.AsyncClient.from_env(address=serving.address, retries=0) as client:
            serving.service.unavailable_decrements = 3
            with pytest.raises(pw.Unavailable):
                async with client.hold("t"):
                    pass
            await asyncio.to_thread(assert_released_by, 4, serving.service)


def assert_released_by(calls: int, service: Service) -> None:
    """Waits for that many decrements, which count once."""
    deadline = time.monotonic() + 20
    while len(service.decrement_ids) < calls and time.monotonic() < deadline:
        time.sleep(0.001)
    assert (len(service.decrement_ids), len(set(service.decrement_ids))) == (calls, 1)


def test_closing_a_client_waits_for_background_releases(server: Server, thread_id: str) -> None:
    with Proxy(server.address) as proxy:
        client = pw.Client.from_env(address=proxy.address)
        hold = client.hold(thread_id).open()
        proxy.resets = 1
        del hold
        gc.collect()
        deadline = time.monotonic() + 30
        while not client._connection.unsettled and time.monotonic() < deadline:
            time.sleep(0.001)
        client.close()
    with pw.Client.from_env(address=server.address) as other:
        assert other.get_pause_state(thread_id).count == 0


def test_closing_a_client_at_once_waits_for_background_releases_too(server: Server, thread_id: str) -> None:
    for _ in range(10):
        client = pw.Client.from_env(address=server.address)
        hold = client.hold(thread_id).open()
        del hold
        client.close()
        with pw.Client.from_env(address=server.address) as other:
            assert other.get_pause_state(thread_id).count == 0


def test_closing_a_client_releases_what_is_being_opened(client: pw.Client, server: Server, thread_id: str) -> None:
    raised: list[BaseException] = []

    def open_hold() -> None:
        try:
            closing.hold(thread_id).open()
        except RuntimeError as error:
            raised.append(error)

    with Proxy(server.address) as proxy:
        closing = pw.Client.from_env(address=proxy.address)
        closing.get_pause_state(thread_id)
        proxy.answering.clear()
        opening = threading.Thread(target=open_hold)
        opening.start()
        becomes(client, 1)
        close = threading.Thread(target=closing.close)
        close.start()
        while not closing._connection._closing:
            time.sleep(0.001)
        proxy.answering.set()
        close.join()
        opening.join()
    assert client.get_pause_state().count == 0
    assert [str(error) for error in raised] == ["this pausewatch client is closed"]


def test_a_hold_is_open_if_the_client_is_closed_just_afterwards(
    server: Server, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pw.Client.from_env(address=server.address)
    run = client._connection.run_in_background
    closing = threading.Thread(target=client.close)

    def run_until_the_client_is_being_closed(work: Callable[[], None]) -> None:
        run(work)
        closing.start()
        while not client._connection._closing:
            time.sleep(0.001)

    monkeypatch.setattr(client._connection, "run_in_background", run_until_the_client_is_being_closed)
    hold = client.hold(thread_id, ttl=30).open()
    closing.join()
    assert hold.opened.count == 1


def test_closing_the_client_wakes_waiters_for_the_lease(server: Server, thread_id: str) -> None:
    client = pw.Client.from_env(address=server.address)
    hold = client.hold(thread_id, ttl=1).open()
    threading.Timer(0.05, client.close).start()
    assert hold.lost(timeout=10) is hold.lease is pw.Lease.OVERDUE, "it is renewed no more"
    with pytest.raises(RuntimeError, match="closed"):
        hold.release()


async def test_an_async_block_holds_and_closes(async_client: pw.AsyncClient) -> None:
    async with async_client.hold(reason="May I?") as hold:
        assert (hold.opened.count, hold.lease) == (1, pw.Lease.HELD)
    assert hold.lease is pw.Lease.RELEASED
    assert (await async_client.get_pause_state()).count == 0


async def test_an_async_block_reports_a_late_answer_and_keeps_its_own_error(async_client: pw.AsyncClient) -> None:
    with pytest.raises(pw.ElicitationReleased):
        async with async_client.hold() as hold:
            await async_client.decrement_elicitation(elicitation_id=hold.elicitation.elicitation_id)
    with pytest.raises(Own) as error:
        async with async_client.hold() as hold:
            await async_client.decrement_elicitation(elicitation_id=hold.elicitation.elicitation_id)
            raise Own
    assert error.value.__notes__[0].startswith("pausewatch: ElicitationReleased: ")


async def test_a_cancelled_block_closes_its_elicitation(async_client: pw.AsyncClient) -> None:
    entered = asyncio.Event()

    async def ask() -> None:
        async with async_client.hold():
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(ask())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await async_client.get_pause_state()).count == 0


@pytest.mark.parametrize("times", [1, 2])
async def test_a_block_that_is_cancelled_in_its_release_is_closed_before_its_client(
    async_client: pw.AsyncClient, server: Server, thread_id: str, times: int
) -> None:
    entered = asyncio.Event()

    async def ask() -> None:
        async with pw.AsyncClient.from_env(address=server.address) as client, client.hold(thread_id):
            entered.set()
            if times == 1:
                # It arrives as the block ends.
                this = asyncio.current_task()
                assert this is not None
                this.cancel()
            else:
                await asyncio.sleep(60)

    task = asyncio.create_task(ask())
    await entered.wait()
    if times == 2:
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await async_client.get_pause_state(thread_id)).count == 0


async def test_a_cancelled_open_closes_what_it_opens(async_client: pw.AsyncClient) -> None:
    await async_client.get_pause_state()
    opening = asyncio.create_task(async_client.hold().open())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with changes(async_client) as states:
        async for state in states:
            if state.revision > 0 and state.count == 0:
                break


async def test_closing_an_async_client_releases_what_is_being_opened(
    async_client: pw.AsyncClient, server: Server, thread_id: str
) -> None:
    with Proxy(server.address) as proxy:
        closing = pw.AsyncClient.from_env(address=proxy.address)
        await closing.get_pause_state(thread_id)
        proxy.answering.clear()
        opening = asyncio.create_task(closing.hold(thread_id).open())
        async with changes(async_client) as states:
            while (await anext(states)).count == 0:
                pass
        close = asyncio.create_task(closing.close())
        await asyncio.sleep(0)
        proxy.answering.set()
        await close
        with pytest.raises(RuntimeError, match="this pausewatch client is closed"):
            await opening
    assert (await async_client.get_pause_state()).count == 0


async def test_closing_an_async_client_releases_what_was_opened_in_that_moment(
    async_client: pw.AsyncClient, server: Server, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = pw.AsyncClient.from_env(address=server.address)
    run, answered, end = closing._connection.run, asyncio.Event(), asyncio.Event()

    async def late(*arguments: Any, **options: Any) -> Any:
        answer = await run(*arguments, **options)
        answered.set()
        await end.wait()
        return answer

    monkeypatch.setattr(closing._connection, "run", late)
    opening = asyncio.create_task(closing.hold(thread_id).open())
    await answered.wait()
    # The call ends and the close begins in the same turn of the loop.
    end.set()
    await asyncio.create_task(closing.close())
    with pytest.raises(RuntimeError, match="this pausewatch client is closed"):
        await opening
    assert (await async_client.get_pause_state()).count == 0


async def test_a_garbage_collected_async_hold_is_closed(async_client: pw.AsyncClient) -> None:
    hold = await async_client.hold().open()
    async with changes(async_client) as states:
        assert (await anext(states)).count == 1
        del hold
        gc.collect()
        assert (await anext(states)).count == 0


async def test_async_lost_wakes_every_waiter(async_client: pw.AsyncClient) -> None:
    async with async_client.hold(ttl=3) as hold:
        waiters = [asyncio.create_task(hold.lost()) for _ in range(3)]
        await async_client.decrement_elicitation(elicitation_id=hold.elicitation.elicitation_id)
        assert await asyncio.gather(*waiters) == [pw.Lease.RELEASED] * 3
        await hold.release()


@asynccontextmanager
async def changes(client: pw.AsyncClient) -> AsyncIterator[AsyncIterator[pw.PauseState]]:
    """The states of the client's thread."""

    async def states() -> AsyncIterator[pw.PauseState]:
        async for event in watch:
            if isinstance(event, pw.State):
                yield event.state

    async with client.watch([client.config.thread_id or ""]) as watch:
        yield states()


async def test_a_best_effort_hold_continues_without_a_coordinator_and_logs_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    nobody = pw.Config(pw.Address.parse("127.0.0.1:1"), retries=0)
    with caplog.at_level(logging.WARNING, "pausewatch"):
        with pw.Client(nobody) as client, client.hold("t", best_effort=True) as hold:
            assert isinstance(hold.failure, pw.Unavailable)
            assert (hold.lease, hold.lost()) == (pw.Lease.NOT_OPEN, pw.Lease.NOT_OPEN)
            with pytest.raises(RuntimeError, match="could not be opened"):
                hold.opened  # noqa: B018
        assert hold.release() == pw.Release(pw.Ending.NOT_OPEN)
        async with pw.AsyncClient(nobody) as async_client:
            async with async_client.hold("t", best_effort=True) as async_hold:
                assert await async_hold.lost() is pw.Lease.NOT_OPEN
            with pytest.raises(Own):
                async with async_client.hold("t", best_effort=True):
                    raise Own
            async with async_client.hold(best_effort=True) as unnamed:
                assert "PAUSEWATCH_THREAD_ID" in str(unnamed.failure)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4
    assert "127.0.0.1:1" in caplog.records[0].getMessage()


def test_a_best_effort_hold_refuses_an_invalid_thread_id(client: pw.Client) -> None:
    with pytest.raises(pw.InvalidField), client.hold("a\0b", best_effort=True):
        pytest.fail("it was entered")
