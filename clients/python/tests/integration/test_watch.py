"""Watches as iterators, against a real server."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

import pausewatch as pw


def watchers(client: pw.Client, thread_id: str) -> int:
    opened = client.increment_elicitation(thread_id)
    client.decrement_elicitation(thread_id, elicitation_id=opened.elicitation.elicitation_id)
    return opened.watchers


def without_watchers(client: pw.Client, thread_id: str) -> None:
    deadline = time.monotonic() + 30
    while watchers(client, thread_id) > 0:
        assert time.monotonic() < deadline, "a stream was left behind"


def flip(client: pw.Client, thread_id: str) -> int:
    """Pauses the thread, and resumes it; says at which revision it ends."""
    client.increment_elicitation(thread_id)
    return client.decrement_elicitation(thread_id).revision


def test_a_watch_is_an_iterator_that_ends_when_it_is_closed(client: pw.Client, thread_id: str) -> None:
    with client.watch([thread_id]) as watch:
        first, second = next(watch), next(watch)
        assert isinstance(first, pw.State)
        assert (first.state.thread_id, first.gap, first.changed) == (thread_id, True, True)
        assert second == pw.SnapshotComplete()
        assert watch.next(timeout=0.01) is None
        threading.Timer(0.05, watch.close).start()
        assert list(watch) == []
    without_watchers(client, thread_id)


def test_a_slow_reader_gets_the_latest_state(client: pw.Client, thread_id: str) -> None:
    with client.watch([thread_id]) as watch:
        assert isinstance(next(watch), pw.State)
        assert isinstance(next(watch), pw.SnapshotComplete)
        for _ in range(50):
            client.increment_elicitation()
        last = client.get_pause_state().revision
        deadline = time.monotonic() + 30
        while True:
            event = watch.next(timeout=30)
            assert isinstance(event, pw.State)
            if event.state.revision == last:
                break
            assert time.monotonic() < deadline
        assert watch.next(timeout=0.05) is None


@pytest.mark.parametrize("thread_ids", [["ok", ""], ["\x07"], []])
def test_invalid_thread_ids_are_refused_at_once(client: pw.Client, thread_ids: list[str]) -> None:
    with pytest.raises(pw.InvalidField):
        client.watch(thread_ids)


def test_one_string_is_not_a_collection_of_ids(client: pw.Client) -> None:
    with pytest.raises(TypeError, match="not one string"):
        client.watch("thread")


def test_without_a_coordinator_the_disconnect_is_reported_at_once() -> None:
    with pw.Client.from_env(address="127.0.0.1:1") as client, client.watch(["t"]) as watch:
        event = watch.next(timeout=30)
        assert isinstance(event, pw.Disconnected)
        assert event.thread_ids == {"t"}
        assert isinstance(event.error, pw.Unavailable)


def test_a_garbage_collected_watch_ends(client: pw.Client, thread_id: str) -> None:
    watch = client.watch([thread_id])
    next(watch)
    del watch
    gc.collect()
    without_watchers(client, thread_id)


def test_closing_the_client_ends_its_watches(server: object, thread_id: str) -> None:
    client = pw.Client.from_env(address=server.address)  # type: ignore[attr-defined]
    watch = client.watch([thread_id])
    reader = threading.Thread(target=lambda: list(watch))
    reader.start()
    client.close()
    reader.join(30)
    assert not reader.is_alive()


def test_g7_an_unread_watch_of_all_threads_is_bounded_and_ends_with_the_latest_states(
    client: pw.Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pausewatch.watch.BACKLOG", 3)
    with client.watch() as watch:
        while not isinstance(next(watch), pw.SnapshotComplete):
            pass
        last = {f"{thread_id}-{number}": flip(client, f"{thread_id}-{number}") for number in range(20)}
        while last:
            event = watch.next(timeout=30)
            assert event is not None
            assert len(watch._reading._pending) <= 3
            if isinstance(event, pw.State) and last.get(event.state.thread_id) == event.state.revision:
                del last[event.state.thread_id]


async def test_g7_an_unread_async_watch_of_all_threads_is_bounded_and_ends_with_the_latest_states(
    client: pw.Client, async_client: pw.AsyncClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pausewatch.watch.BACKLOG", 3)
    async with async_client.watch() as watch:
        while not isinstance(await anext(watch), pw.SnapshotComplete):
            pass
        threads = [f"{thread_id}-{number}" for number in range(20)]
        last = {thread: await asyncio.to_thread(flip, client, thread) for thread in threads}
        while last:
            event = await asyncio.wait_for(anext(watch), 30)
            assert len(watch._reading._pending) <= 3
            if isinstance(event, pw.State) and last.get(event.state.thread_id) == event.state.revision:
                del last[event.state.thread_id]


def test_a_watch_that_has_stopped_reading_can_be_closed(
    client: pw.Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pausewatch.watch.BACKLOG", 1)
    watch = client.watch()
    # The snapshot is one event, which holds it; what comes then waits within the stream's thread.
    flip(client, thread_id)
    watch.close()
    assert next(watch, None) is None
    without_watchers(client, thread_id)


async def test_an_async_watch_is_cancelled_without_losing_an_event(async_client: pw.AsyncClient, thread_id: str) -> None:
    async with async_client.watch([thread_id]) as watch:
        assert isinstance(await anext(watch), pw.State)
        assert isinstance(await anext(watch), pw.SnapshotComplete)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(watch)
        await async_client.increment_elicitation()
        event = await anext(watch)
        assert isinstance(event, pw.State)
        assert event.state.count == 1


async def test_closing_the_async_client_ends_its_watches(async_client: pw.AsyncClient) -> None:
    watch = async_client.watch()

    async def read() -> list[pw.Event]:
        return [event async for event in watch]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await async_client.close()
    assert isinstance(await reading, list)


async def test_calls_that_are_cancelled_together_disconnect_no_watch(async_client: pw.AsyncClient, thread_id: str) -> None:
    async with asyncio.timeout(30), async_client.watch([thread_id]) as watch:
        assert isinstance(await anext(watch), pw.State)
        assert isinstance(await anext(watch), pw.SnapshotComplete)
        for count in range(1, 6):
            calls = [asyncio.create_task(async_client.get_pause_state("another")) for _ in range(100)]
            await asyncio.sleep(0.002)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await async_client.increment_elicitation()
            event = await anext(watch)
            assert isinstance(event, pw.State), event
            assert event.state.count == count
