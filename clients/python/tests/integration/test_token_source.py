"""A token source that blocks."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from support.server import Server

import pausewatch as pw


class Vault:
    """Gives tokens, except while it is sealed: then it blocks."""

    def __init__(self) -> None:
        self.unsealed = threading.Event()
        self.unsealed.set()

    def token(self) -> str:
        self.unsealed.wait()
        return "token"


@pytest.fixture
def vault() -> Iterator[Vault]:
    vault = Vault()
    yield vault
    vault.unsealed.set()


def test_it_delays_neither_timeouts_nor_the_end_of_a_call_nor_close(server: Server, thread_id: str, vault: Vault) -> None:
    client = pw.Client.from_env(address=server.address, thread_id=thread_id, token_source=vault.token)
    hold = client.hold("another", ttl=5).open()
    with client.stopwatch(3) as stopwatch:
        while not stopwatch.is_linked:
            time.sleep(0.01)
        vault.unsealed.clear()
        with pytest.raises(pw.DeadlineExceeded, match=r"the token source gave no token within 0\.01 s"):
            client.get_pause_state(deadline=0.01)
        # Renewals of the hold, due before and after, wait for a token.
        assert stopwatch.wait_expired(timeout=30)
        assert hold.lost(timeout=30) is pw.Lease.OVERDUE
        client.close()


async def test_it_does_not_block_the_event_loop(server: Server, thread_id: str, vault: Vault) -> None:
    async with pw.AsyncClient.from_env(address=server.address, token_source=vault.token) as client:
        vault.unsealed.clear()
        stopwatch = client.stopwatch(0.01, thread_id=thread_id, disconnect_grace=0)
        with pytest.raises(pw.DeadlineExceeded, match=r"the token source gave no token within 0\.01 s"):
            await client.get_pause_state(thread_id, deadline=0.01)
        async with asyncio.timeout(30):
            assert await stopwatch.wait_expired()
        vault.unsealed.set()
        await client.get_pause_state(thread_id)


async def test_a_file_that_does_not_answer_does_not_block_the_event_loop(server: Server, thread_id: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    environ = {"PAUSEWATCH_TOKEN_FILE": str(path), "PAUSEWATCH_ADDRESS": server.address}
    async with pw.AsyncClient(pw.Config.load(environ=environ)) as client:
        stopwatch = client.stopwatch(0.01, thread_id=thread_id, disconnect_grace=0)
        with pytest.raises(pw.DeadlineExceeded, match=r"the token source gave no token within 0\.01 s"):
            await client.get_pause_state(thread_id, deadline=0.01)
        async with asyncio.timeout(30):
            assert await stopwatch.wait_expired()
    path.write_text("token")


# Longer than a replica of several may take to answer.
_SLOW_SECONDS = 2.0


def _two_addresses(server: Server) -> str:
    """Two names of the same server."""
    return f"{server.address},{server.address.replace('127.0.0.1', 'localhost')}"


def test_a_slow_one_breaks_no_link(server: Server, thread_id: str, vault: Vault) -> None:
    links: SimpleQueue[pw.Link] = SimpleQueue()
    vault.unsealed.clear()
    config = pw.Config.load(address=_two_addresses(server), token_source=vault.token, deadline=60, on_link=links.put)
    with pw.Client(config) as client, client.stopwatch(60, thread_id=thread_id):
        time.sleep(_SLOW_SECONDS)
        vault.unsealed.set()
        assert links.get(timeout=30).state is pw.LinkState.CONNECTED


async def test_a_slow_one_breaks_no_link_of_an_async_client(server: Server, thread_id: str, vault: Vault) -> None:
    links: asyncio.Queue[pw.Link] = asyncio.Queue()
    vault.unsealed.clear()
    config = pw.Config.load(address=_two_addresses(server), token_source=vault.token, deadline=60, on_link=links.put_nowait)
    async with pw.AsyncClient(config) as client, client.stopwatch(60, thread_id=thread_id):
        await asyncio.sleep(_SLOW_SECONDS)
        vault.unsealed.set()
        async with asyncio.timeout(30):
            assert (await links.get()).state is pw.LinkState.CONNECTED
