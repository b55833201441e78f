"""The asynchronous client, and `pausable_timeout` with a shared client."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import NoneType
from typing import TYPE_CHECKING, Self

from ._io import calls
from ._io.async_connection import AsyncConnection
from ._io.types import check_type
from .config import DEADLINE, Config
from .hold import DEFAULT_TTL, AsyncHold
from .stopwatch import DISCONNECT_GRACE, AsyncStopwatch
from .timeout import PausableTimeout
from .watch import AsyncWatch

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Iterable
    from datetime import datetime

    from ._io.durations import Seconds
    from .messages import Decremented, Elicitation, Incremented, PausePage, PauseState, PauseStatePage


class AsyncClient:
    """The same as `Client`, for tasks. It belongs to the event loop on which it is first used."""

    def __init__(self, config: Config | None = None) -> None:
        """A client with these settings, by default those of `Config()`. Does not connect yet, and ignores the environment.

        Raises ConfigError: a TLS file cannot be read, or its contents are not valid.
        """
        check_type("config", config, (Config, NoneType), "a Config; AsyncClient.from_env(address=…) takes an address")
        self._connection = AsyncConnection(config or Config())

    @classmethod
    def from_env(
        cls,
        *,
        address: str | None = None,
        thread_id: str | None = None,
        token: str | None = None,
        token_source: Callable[[], str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        deadline: Seconds = DEADLINE,
        retries: int | None = None,
        config_file: str | os.PathLike[str] | None = None,
    ) -> Self:
        """A client with the settings of the arguments, else of the environment, else of the config file: see `Config.load`.

        Raises ConfigError.
        """
        return cls(
            Config.load(
                address=address,
                thread_id=thread_id,
                token=token,
                token_source=token_source,
                tls_ca=tls_ca,
                tls_cert=tls_cert,
                tls_key=tls_key,
                deadline=deadline,
                retries=retries,
                config_file=config_file,
            )
        )

    @property
    def config(self) -> Config:
        """The settings of this client."""
        return self._connection.config

    async def increment_elicitation(
        self,
        thread_id: str | None = None,
        *,
        reason: str = "",
        holder: str = "",
        ttl: Seconds | None = None,
        request_id: str = "",
        deadline: Seconds | None = None,
    ) -> Incremented:
        """Opens one elicitation, as `Client.increment_elicitation` does. If the task is cancelled after the request was sent, the
        elicitation may be open.
        """
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        call = calls.increment(thread, reason=reason, holder=holder, ttl=ttl, request_id=request_id)
        return await self._connection.run(call, deadline)

    async def decrement_elicitation(
        self,
        thread_id: str | None = None,
        *,
        elicitation_id: str | None = None,
        request_id: str = "",
        deadline: Seconds | None = None,
    ) -> Decremented:
        """Closes one elicitation, as `Client.decrement_elicitation` does. If the task is cancelled after the request was sent,
        the elicitation may be closed.
        """
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        call = calls.decrement(thread, elicitation_id=elicitation_id, request_id=request_id)
        return await self._connection.run(call, deadline)

    async def renew_elicitation(
        self,
        thread_id: str | None = None,
        *,
        elicitation_id: str,
        ttl: Seconds | None = None,
        deadline: Seconds | None = None,
    ) -> Elicitation:
        """Extends one lease, as `Client.renew_elicitation` does."""
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        return await self._connection.run(calls.renew(thread, elicitation_id, ttl=ttl), deadline)

    async def get_pause_state(self, thread_id: str | None = None, *, deadline: Seconds | None = None) -> PauseState:
        """Reads one thread, as `Client.get_pause_state` does."""
        return await self._connection.run(calls.get(calls.resolve_thread(thread_id, self.config.thread_id)), deadline)

    async def list_pause_states(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        include_running: bool = False,
        deadline: Seconds | None = None,
    ) -> PauseStatePage:
        """Returns one page of threads, as `Client.list_pause_states` does."""
        call = calls.list_page(page_size=page_size, page_token=page_token, include_running=include_running)
        return await self._connection.run(call, deadline)

    async def list_pauses(
        self,
        thread_id: str | None = None,
        *,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = 0,
        page_token: str = "",
        deadline: Seconds | None = None,
    ) -> PausePage:
        """Returns one page of ended pauses, as `Client.list_pauses` does."""
        call = calls.list_pauses(
            thread_id=thread_id or "",
            start_time=start_time,
            end_time=end_time,
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.run(call, deadline)

    def hold(
        self,
        thread_id: str | None = None,
        *,
        reason: str = "",
        holder: str | None = None,
        ttl: Seconds = DEFAULT_TTL,
        best_effort: bool = False,
    ) -> AsyncHold:
        """An elicitation that is open while an `async with` block runs; the arguments are those of `Client.hold`."""
        named = self.config.thread_id if thread_id is None else thread_id
        thread = named if best_effort else calls.resolve_thread(thread_id, self.config.thread_id)
        return AsyncHold(self._connection, thread, reason, holder, ttl, best_effort)

    def watch(
        self, thread_ids: Iterable[str] | None = None, *, include_elicitations: bool = False, observer: bool = False
    ) -> AsyncWatch:
        """Watches these threads, or with None every thread, as `Client.watch` does."""
        return AsyncWatch(self._connection, thread_ids, include_elicitations, observer)

    def stopwatch(
        self,
        limit: Seconds | None,
        *,
        thread_id: str | None = None,
        max_wall: Seconds | None = None,
        disconnect_grace: Seconds = DISCONNECT_GRACE,
    ) -> AsyncStopwatch:
        """A stopwatch for tasks; the arguments are those of `Client.stopwatch`."""
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        return AsyncStopwatch(self._connection, thread, limit, max_wall, disconnect_grace)

    def pausable_timeout(
        self,
        limit: Seconds | None,
        *,
        thread_id: str | None = None,
        max_wall: Seconds | None = None,
        disconnect_grace: Seconds = DISCONNECT_GRACE,
    ) -> PausableTimeout:
        """The same as asyncio.timeout, for an `async with` block: raises TimeoutError after `limit` of unpaused time.

        The arguments are those of `Client.stopwatch`; with `max_wall`, `ended_by` says which limit it was.

        Raises InvalidField at the entry of the block: the thread id or a time is not valid.
        """
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        return PausableTimeout(self._connection, thread, limit, max_wall, disconnect_grace)

    async def close(self) -> None:
        """Ends the connection and every watch of this client. Calling it again does nothing.

        Stopwatches and timeouts continue, and are no longer paused by their threads: they expire at the end of their limits,
        without asking the coordinator. New ones raise RuntimeError, as every call does.

        Holds that are still open end with their leases. A hold that is being opened is closed, and its `open` raises
        RuntimeError. For that, and for holds that are being closed, it waits for one deadline at most.
        """
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.config.address)!r})"


_CANCELLED_CALLS_SECONDS = 0.02
"""How long a loop runs on after its shared client was closed: gRPC would report the end of cancelled calls to the next loop."""

# Several threads may each have an event loop.
_default_clients_lock = threading.Lock()
_default_clients: dict[asyncio.AbstractEventLoop, tuple[AsyncClient, AsyncGenerator[None]]] = {}


def pausable_timeout(
    limit: Seconds | None,
    *,
    thread_id: str | None = None,
    max_wall: Seconds | None = None,
    disconnect_grace: Seconds = DISCONNECT_GRACE,
) -> PausableTimeout:
    """The same as `AsyncClient.pausable_timeout`, with one shared client per event loop, configured from the environment.

    The shared client is closed at the end of its loop, when `asyncio.run` closes the asynchronous generators of the loop.

    Raises ConfigError.
    """
    client = _default_client(asyncio.get_running_loop())
    return client.pausable_timeout(limit, thread_id=thread_id, max_wall=max_wall, disconnect_grace=disconnect_grace)


def _default_client(loop: asyncio.AbstractEventLoop) -> AsyncClient:
    with _default_clients_lock:
        client, _ = _default_clients.get(loop, (None, None))
        if client is None:
            for closed in [other for other in _default_clients if other.is_closed()]:
                del _default_clients[closed]
            client = AsyncClient.from_env()
            closing = _closing(client)
            # Runs up to its yield, without waiting: from now on it is one of the asynchronous generators of the loop.
            with contextlib.suppress(StopIteration):
                anext(closing).send(None)
            _default_clients[loop] = client, closing
        return client


async def _closing(client: AsyncClient) -> AsyncGenerator[None]:
    """Closes the client at the end of its loop: `asyncio.run` closes the asynchronous generators before it closes the loop."""
    try:
        yield
    finally:
        await client.close()
        # gRPC reports the end of cancelled calls a moment later, and has no function that waits for it.
        await asyncio.sleep(_CANCELLED_CALLS_SECONDS)
