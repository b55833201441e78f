"""The synchronous stopwatch, and what both kinds share, against a real server."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from queue import SimpleQueue

import pytest
from support.server import Server

import pausewatch as pw
from pausewatch.config import Config


def test_it_expires_after_its_limit(client: pw.Client) -> None:
    started = time.monotonic()
    with client.stopwatch(0.1) as stopwatch:
        assert stopwatch.wait_expired()
        assert time.monotonic() - started >= 0.1
        assert (stopwatch.is_expired, stopwatch.remaining()) == (True, 0)


def test_waiting_may_time_out(client: pw.Client) -> None:
    with client.stopwatch(60) as stopwatch:
        assert not stopwatch.wait_expired(timeout=0.01)


def test_g1_it_stands_still_while_its_thread_is_held(client: pw.Client) -> None:
    # The hold is opened first: on a busy machine that takes longer than the limit.
    with client.hold() as hold, client.stopwatch(1) as stopwatch:
        while not stopwatch.is_paused:
            time.sleep(0.001)
        assert not stopwatch.wait_expired(timeout=1.5)
        assert stopwatch.is_paused
        hold.release()
        assert stopwatch.wait_expired(timeout=30)


def test_g1_it_stands_still_while_a_thread_that_it_awaits_is_held(client: pw.Client, thread_id: str) -> None:
    child = "child of " + thread_id
    with client.hold(child), client.stopwatch(1) as stopwatch:
        with stopwatch.await_thread(child):
            while not stopwatch.is_paused:
                time.sleep(0.001)
            assert not stopwatch.wait_expired(timeout=1.5)
            assert stopwatch.is_paused
        assert stopwatch.wait_expired(timeout=60)


def test_it_refuses_to_await_an_invalid_thread_and_its_own(client: pw.Client, thread_id: str) -> None:
    with client.stopwatch(60) as stopwatch:
        for bad, reason in [(thread_id, f"is '{thread_id}', the stopwatch's own thread"), ("", "is empty")]:
            with pytest.raises(pw.InvalidField) as error, stopwatch.await_thread(bad):
                pass
            assert error.value.field == "thread_id"
            assert reason in error.value.description
        stopwatch.stop()
        with stopwatch.await_thread("other"):
            assert not stopwatch.is_paused


def test_it_is_the_deadline_of_a_subprocess(client: pw.Client) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with client.stopwatch(0.1) as stopwatch:
        stopwatch.call_when_expired(process.kill)
        assert process.wait(timeout=30) < 0


def test_callbacks_are_called_once_and_late_ones_soon_and_their_errors_are_logged(
    client: pw.Client, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []
    done = threading.Event()
    with client.stopwatch(0.05) as stopwatch:
        stopwatch.call_when_expired(lambda: called.append("early"))
        stopwatch.call_when_expired(lambda: 1 / 0)
        assert stopwatch.wait_expired(timeout=30)
        stopwatch.call_when_expired(lambda: called.append("late"))
        stopwatch.call_when_expired(done.set)
        assert done.wait(30)
    assert called == ["early", "late"]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (record.name, record.getMessage()) == ("pausewatch", "a callback of a stopwatch failed")


def test_a_slow_callback_delays_no_other_stopwatch(client: pw.Client) -> None:
    release = threading.Event()
    with client.stopwatch(0) as slow, client.stopwatch(0.05) as other:
        slow.call_when_expired(lambda: release.wait(30))
        assert other.wait_expired(timeout=30)
        release.set()


def test_a_stopped_stopwatch_does_not_expire_and_wakes_its_waiters(client: pw.Client) -> None:
    stopwatch = client.stopwatch(60)
    threading.Timer(0.05, stopwatch.stop).start()
    started = time.monotonic()
    assert not stopwatch.wait_expired(timeout=30)
    assert time.monotonic() - started < 25, "the end wakes it, not the timeout"


def test_stopwatches_of_a_closed_client_run_out_and_then_no_thread_is_left(server: Server, thread_id: str) -> None:
    before = set(threading.enumerate())
    client = pw.Client.from_env(address=server.address)
    called = threading.Event()
    client.increment_elicitation(thread_id)
    stopwatch, paused = client.stopwatch(0.5, thread_id=thread_id), client.stopwatch(0.5, thread_id=thread_id)
    stopwatch.call_when_expired(called.set)
    while not stopwatch.is_paused:
        time.sleep(0.001)
    with paused.pause():
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            client.stopwatch(1, thread_id=thread_id)
        assert not stopwatch.is_paused
        assert stopwatch.wait_expired(timeout=30)
        assert (stopwatch.ended_by, stopwatch.elapsed() >= 0.5) == (pw.EndedBy.LIMIT, True)
        assert called.wait(30)
        assert not paused.is_expired, "its own pause goes on"
        with paused.await_thread("another"):
            pass
    assert paused.wait_expired(timeout=30)
    late = threading.Event()
    paused.call_when_expired(late.set)
    assert late.wait(30)
    gone(before)


def gone(before: set[threading.Thread]) -> None:
    deadline = time.monotonic() + 30
    while left := {thread.name for thread in threading.enumerate() if thread not in before}:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_a_garbage_collected_stopwatch_is_stopped(client: pw.Client, thread_id: str) -> None:
    stopwatches = [client.stopwatch(60), client.stopwatch(None)]
    stopwatches[1].call_when_expired(stopwatches[1].stop)  # It never expires, so that is no reason to live.
    [controller] = client._connection.controllers.values()
    followed = controller._threads[thread_id]
    assert followed.registered == 2
    del stopwatches
    gc.collect()
    deadline = time.monotonic() + 30
    while followed.registered > 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_callback_is_called_without_references_to_the_stopwatch_or_its_client(server: Server, thread_id: str) -> None:
    called = threading.Event()
    pw.Client.from_env(address=server.address).stopwatch(0.05, thread_id=thread_id).call_when_expired(called.set)
    gc.collect()
    assert called.wait(30)


async def test_a_callback_is_called_without_references_to_the_async_stopwatch(server: Server, thread_id: str) -> None:
    called = asyncio.Event()
    pw.AsyncClient.from_env(address=server.address).stopwatch(0.05, thread_id=thread_id).call_when_expired(called.set)
    gc.collect()
    await asyncio.wait_for(called.wait(), 30)


class _Resource:
    """Something to be called, to see how long it lives."""

    def __init__(self) -> None:
        self.called = threading.Event()

    def call(self) -> None:
        self.called.set()


def test_callbacks_do_not_outlive_the_stopwatch(client: pw.Client) -> None:
    expired, stopped = _Resource(), _Resource()
    ended = [client.stopwatch(0), client.stopwatch(60)]
    for stopwatch, resource in zip(ended, (expired, stopped), strict=True):
        stopwatch.call_when_expired(resource.call)
    assert expired.called.wait(30)
    ended[1].stop()
    ended[1].call_when_expired(stopped.call)
    left = [weakref.ref(expired), weakref.ref(stopped)]
    del expired, stopped, resource
    deadline = time.monotonic() + 30
    while any(resource() is not None for resource in left):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        gc.collect()


def test_g7_a_thousand_stopwatches_need_no_thousand_threads(client: pw.Client) -> None:
    before = threading.active_count()
    stopwatches = [client.stopwatch(60, thread_id=f"many-{number}") for number in range(1_000)]
    assert threading.active_count() <= before + 4
    for stopwatch in stopwatches:
        stopwatch.stop()


def test_bad_ids_and_lengths_are_refused(client: pw.Client) -> None:
    with pytest.raises(pw.InvalidField):
        client.stopwatch(1, thread_id="")
    with pytest.raises(pw.InvalidField, match="limit is nan"):
        client.stopwatch(float("nan"))
    with client.stopwatch(float("inf"), disconnect_grace=float("inf")) as stopwatch:
        assert not stopwatch.wait_expired(timeout=0.01)


async def test_an_async_stopwatch_expires_and_is_stopped(async_client: pw.AsyncClient) -> None:
    async with async_client.stopwatch(0.05) as stopwatch:
        called = asyncio.Event()
        stopwatch.call_when_expired(called.set)
        assert await stopwatch.wait_expired()
        await called.wait()
    waiting = async_client.stopwatch(60)
    waiter = asyncio.create_task(waiting.wait_expired())
    await asyncio.sleep(0)
    waiting.stop()
    assert not await waiter


async def test_link_changes_are_reported_to_the_program() -> None:
    reported: SimpleQueue[pw.Link] = SimpleQueue()
    async_reported: asyncio.Queue[pw.Link] = asyncio.Queue()
    with Server() as server:
        config = Config.load(address=server.address, on_link=reported.put)
        async_config = Config.load(address=server.address, on_link=async_reported.put_nowait)
        async with pw.AsyncClient(async_config) as async_client:
            with pw.Client(config) as client, client.stopwatch(None, thread_id="t", disconnect_grace=0.1):
                stopwatch = async_client.stopwatch(None, thread_id="t", disconnect_grace=0.1)
                links = [await asyncio.to_thread(reported.get), await async_reported.get()]
                server.kill()
                for _ in range(2):
                    links += [await asyncio.to_thread(reported.get), await async_reported.get()]
                stopwatch.stop()
    states = [pw.LinkState.CONNECTED, pw.LinkState.DISCONNECTED, pw.LinkState.GRACE_SPENT]
    assert [link.state for link in links] == [state for state in states for _ in range(2)]
    assert all(isinstance(link.error, pw.Unavailable) for link in links[2:])
    assert all(link.since is not None and link.since <= time.monotonic() for link in links[2:])
