"""Calls to a real server, and through connections that break."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from support.proxy import Proxy
from support.server import Server
from support.service import Serving, limit_trailers

import pausewatch as pw
from pausewatch._io.retry import Attempts


def test_elicitations_are_opened_counted_and_closed(client: pw.Client) -> None:
    opened = client.increment_elicitation(reason="May I?", holder="test", ttl=60)
    assert (opened.count, opened.paused, opened.elicitation.reason) == (1, True, "May I?")
    assert opened.elicitation.expire_time is not None
    assert opened.elicitation.create_time is not None
    assert opened.elicitation.expire_time - opened.elicitation.create_time == timedelta(seconds=60)
    state = client.get_pause_state()
    assert (state.count, state.elicitations) == (1, (opened.elicitation,))
    assert state.paused_for is not None
    assert client.decrement_elicitation(elicitation_id=opened.elicitation.elicitation_id).count == 0


async def test_the_asynchronous_client_has_the_same_calls(async_client: pw.AsyncClient, thread_id: str) -> None:
    opened = await async_client.increment_elicitation(ttl=timedelta(seconds=60))
    renewed = await async_client.renew_elicitation(elicitation_id=opened.elicitation.elicitation_id, ttl=30)
    assert renewed.elicitation_id == opened.elicitation.elicitation_id
    page = await async_client.list_pause_states(page_size=1_000)
    assert thread_id in [state.thread_id for state in page.pause_states]
    assert (await async_client.decrement_elicitation()).count == 0
    pauses = await async_client.list_pauses(thread_id, start_time=opened.elicitation.create_time)
    assert [pause.ended_by for pause in pauses.pauses] == [pw.PauseEnd.DECREMENTED]
    assert not (await async_client.list_pauses(thread_id, end_time=opened.elicitation.create_time)).pauses
    with pytest.raises(pw.NoOutstandingElicitation) as error:
        await async_client.decrement_elicitation()
    assert error.value.metadata["thread_id"] == thread_id


def test_a_call_without_a_thread_says_how_to_name_one(server: Server) -> None:
    with (
        pw.Client.from_env(address=server.address) as client,
        pytest.raises(pw.ConfigError, match="name one with thread_id or PAUSEWATCH_THREAD_ID"),
    ):
        client.get_pause_state()


def test_without_a_coordinator_a_call_ends_by_its_deadline() -> None:
    with pw.Client.from_env(address="127.0.0.1:1") as client:
        started = time.monotonic()
        with pytest.raises(pw.TransientError):
            client.get_pause_state("t", deadline=0.3)
        assert time.monotonic() - started < 3


async def test_without_a_coordinator_an_asynchronous_call_ends_by_its_deadline() -> None:
    async with pw.AsyncClient.from_env(address="127.0.0.1:1", deadline=0.3) as client:
        with pytest.raises(pw.TransientError):
            await client.get_pause_state("t")


def test_g4_a_call_whose_connection_is_reset_is_retried_and_counts_once(server: Server) -> None:
    with Proxy(server.address) as proxy, pw.Client.from_env(address=proxy.address, thread_id="reset") as client:
        client.get_pause_state()
        for count in range(1, 6):
            proxy.resets = 1
            assert client.increment_elicitation().count == count
            assert proxy.resets == 0


async def test_g4_an_asynchronous_call_whose_connection_is_reset_is_retried_and_counts_once(server: Server) -> None:
    with Proxy(server.address) as proxy:
        async with pw.AsyncClient.from_env(address=proxy.address, thread_id="async-reset") as client:
            await client.get_pause_state()
            for count in range(1, 6):
                proxy.resets = 1
                assert (await client.increment_elicitation()).count == count
                assert proxy.resets == 0


def test_g4_a_call_over_the_rate_limit_is_retried_with_its_request_id() -> None:
    with Serving() as serving, pw.Client.from_env(address=serving.address) as client:
        retry = RetryInfo(retry_delay=Duration(nanos=200_000_000))
        serving.service.refusals = [limit_trailers("calls-per-second-per-caller", retry)] * 2
        started = time.monotonic()
        assert client.increment_elicitation("t", deadline=60).count == 1
        assert time.monotonic() - started >= 0.4
        assert len(serving.service.request_ids) == 3
        assert len(set(serving.service.request_ids)) == 1


async def test_g4_an_asynchronous_call_over_the_rate_limit_is_retried() -> None:
    with Serving() as serving:
        async with pw.AsyncClient.from_env(address=serving.address) as client:
            serving.service.refusals = [limit_trailers("calls-per-second")]
            started = time.monotonic()
            assert (await client.increment_elicitation("t", deadline=60)).count == 1
            assert time.monotonic() - started >= 1, "the server gave no time"
            assert len(serving.service.request_ids) == 2
            assert len(set(serving.service.request_ids)) == 1


@pytest.mark.parametrize(
    ("limit", "seconds"), [("open-elicitations-per-caller", 0), ("open-elicitations", 1), ("calls-per-second", 60)]
)
async def test_another_limit_and_a_delay_beyond_the_deadline_are_raised_at_once(limit: str, seconds: int) -> None:
    with Serving() as serving:
        refusal = limit_trailers(limit, RetryInfo(retry_delay=Duration(seconds=seconds)))
        serving.service.refusals = [refusal] * 2
        with pw.Client.from_env(address=serving.address) as client, pytest.raises(pw.LimitExceeded) as error:
            client.increment_elicitation("t", deadline=30)
        assert (error.value.limit, error.value.retry_after) == (limit, timedelta(seconds=seconds))
        async with pw.AsyncClient.from_env(address=serving.address) as async_client:
            with pytest.raises(pw.LimitExceeded):
                await async_client.increment_elicitation("t", deadline=30)
        assert len(serving.service.request_ids) == 2


def test_limits_of_a_real_server_are_raised_or_waited_for() -> None:
    limits = ("--max-open-elicitations-per-caller", "1", "--max-calls-per-second-per-caller", "5")
    with Server(None, "127.0.0.1:0", *limits) as server, pw.Client.from_env(address=server.address) as client:
        client.increment_elicitation("t", ttl=60)
        with pytest.raises(pw.LimitExceeded) as error:
            client.increment_elicitation("t", ttl=60)
        assert error.value.limit == "open-elicitations-per-caller"
        assert (error.value.retry_after is not None, error.value.is_transient) == (True, False)
        for _ in range(8):
            client.get_pause_state("t", deadline=60)


async def test_a_deadline_may_be_infinite(server: Server) -> None:
    async with pw.AsyncClient.from_env(address=server.address, deadline=float("inf")) as async_client:
        await async_client.get_pause_state("t")
    with pw.Client.from_env(address=server.address, deadline=timedelta.max) as client, client.hold("endless"):
        client.get_pause_state("t", deadline=1e300)


def test_a_client_reconnects_soon_after_the_server_is_back(tmp_path: Path) -> None:
    with Server(tmp_path) as server, pw.Client.from_env(address=server.address) as client:
        client.get_pause_state("t")
        server.kill()
        with pytest.raises(pw.TransientError):
            client.get_pause_state("t", deadline=2)
        server.start()
        started = time.monotonic()
        client.get_pause_state("t")
        assert time.monotonic() - started < 2


def test_clients_without_retries_are_served_as_soon_as_the_coordinator_is_back() -> None:
    with Server() as server:
        server.kill()
        clients = [pw.Client(pw.Config(pw.Address.parse(server.address), retries=0)) for _ in range(20)]
        for client in clients:
            with pytest.raises(pw.Unavailable):
                client.get_pause_state("t")
        # Meanwhile gRPC may try to connect again, in vain.
        time.sleep(1)
        server.start()
        for client in clients:
            client.get_pause_state("t")
            client.close()


def test_a_call_of_a_client_that_is_closed_just_before_it_is_sent_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    client = pw.Client.from_env(address="127.0.0.1:1")
    begin = Attempts.begin

    def close_first(attempts: Attempts, now: int) -> tuple[object, int]:
        client.close()
        return begin(attempts, now)

    monkeypatch.setattr(Attempts, "begin", close_first)
    with pytest.raises(RuntimeError, match="this pausewatch client is closed"):
        client.get_pause_state("t")


def test_calls_of_a_closed_client_raise_and_closing_again_does_nothing(server: Server) -> None:
    client = pw.Client.from_env(address=server.address)
    client.get_pause_state("t")
    client.close()
    client.close()
    for use in (lambda: client.get_pause_state("t"), lambda: client.watch(), lambda: client.hold("t").open()):
        with pytest.raises(RuntimeError, match="this pausewatch client is closed"):
            use()


def test_closing_ends_a_waiting_call() -> None:
    client = pw.Client.from_env(address="127.0.0.1:1", deadline=60)
    raised: list[BaseException] = []

    def call() -> None:
        try:
            client.get_pause_state("t")
        except RuntimeError as error:
            raised.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    client.close()
    caller.join(10)
    assert [str(error) for error in raised] == ["this pausewatch client is closed"]


async def test_closing_ends_a_waiting_asynchronous_call_without_cancelling_its_task() -> None:
    client = pw.AsyncClient.from_env(address="127.0.0.1:1", deadline=60)
    call = asyncio.create_task(client.get_pause_state("t"))
    await asyncio.sleep(0.2)
    await client.close()
    await client.close()
    with pytest.raises(RuntimeError, match="this pausewatch client is closed"):
        await call


def test_a_client_belongs_to_one_event_loop(server: Server) -> None:
    client = pw.AsyncClient.from_env(address=server.address)

    async def use() -> None:
        await client.get_pause_state("t")

    with asyncio.Runner() as first:
        first.run(use())
        with asyncio.Runner() as second, pytest.raises(RuntimeError, match="belongs to another event loop"):
            second.run(use())
        first.run(client.close())


def test_many_threads_may_use_one_client(client: pw.Client) -> None:
    threads = [threading.Thread(target=client.increment_elicitation) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get_pause_state().count == 20


def test_a_unix_socket_may_have_any_path(tmp_path: Path) -> None:
    path = tmp_path / "ä %20#?.sock"
    with Server(listen=f"unix:{path}"), pw.Client.from_env(address=f"unix://{path}") as client:
        assert client.increment_elicitation("线程").count == 1
