"""A server for all tests that do not break it, and a thread of each test's own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from support.server import Server

import pausewatch as pw
from pausewatch.config import THREAD_VARIABLES


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ADDRESS", "THREAD_ID", "TOKEN", "CONFIG", "TLS_CA", "TLS_CERT", "TLS_KEY"):
        monkeypatch.delenv(f"PAUSEWATCH_{name}", raising=False)
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def thread_id() -> str:
    return f"thread-{uuid.uuid4()}"


@pytest.fixture
def client(server: Server, thread_id: str) -> Iterator[pw.Client]:
    with pw.Client.from_env(address=server.address, thread_id=thread_id) as client:
        yield client


@pytest_asyncio.fixture
async def async_client(server: Server, thread_id: str) -> AsyncIterator[pw.AsyncClient]:
    async with pw.AsyncClient.from_env(address=server.address, thread_id=thread_id) as client:
        yield client
