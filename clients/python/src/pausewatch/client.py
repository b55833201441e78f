"""The synchronous client."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Self

from ._io import calls
from ._io.connection import Connection
from ._io.types import check_type
from .config import DEADLINE, Config
from .hold import DEFAULT_TTL, Hold
from .stopwatch import DISCONNECT_GRACE, Stopwatch
from .watch import Watch

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from ._io.durations import Seconds
    from .messages import Decremented, Elicitation, Incremented, PausePage, PauseState, PauseStatePage


class Client:
    """A client of a coordinator. It connects at the first call, and reconnects whenever the connection is lost. Thread-safe.

    Every call has a deadline, 5 s by default. While the coordinator is unavailable or the rate limit is exceeded, the call is
    retried within the deadline, with random retry delays and the same request id. Besides its documented errors a call can raise
    LimitExceeded (nothing changed); Unavailable, StoreUnavailable or DeadlineExceeded (whether the call counted is unknown: call
    again with the same request id); or CallError.

    An exception that a signal handler raises, such as KeyboardInterrupt, ends a call, a wait and `close` at once. What was begun
    goes on in the background: an interrupted increment may have opened its elicitation, and an interrupted decrement may have
    closed it; a hold closes what it has opened. The client can be used further, and `close` can be called again.

    A forked child must create its own client. If the parent had a watch or a stopwatch, that works only with
    `GRPC_ENABLE_FORK_SUPPORT=1` in the environment, set before `grpc` is imported; else calls of the child raise Unavailable
    or hang. Processes that are spawned need nothing.
    """

    def __init__(self, config: Config | None = None) -> None:
        """A client with these settings, by default those of `Config()`. Does not connect yet, and ignores the environment.

        Raises ConfigError: a TLS file cannot be read, or its contents are not valid.
        """
        check_type("config", config, (Config, NoneType), "a Config; Client.from_env(address=…) takes an address")
        self._connection = Connection(config or Config())

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

    def increment_elicitation(
        self,
        thread_id: str | None = None,
        *,
        reason: str = "",
        holder: str = "",
        ttl: Seconds | None = None,
        request_id: str = "",
        deadline: Seconds | None = None,
    ) -> Incremented:
        """Opens one elicitation. The caller must renew and close it; `hold` does both by itself.

        `thread_id`: None: the configured thread. `ttl`: 1 s to 24 h; None: the server's default. `request_id`: a random id by
        default.

        Raises InvalidField, RequestIdReused, TooManyElicitations, LimitExceeded: nothing changed.
        """
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        call = calls.increment(thread, reason=reason, holder=holder, ttl=ttl, request_id=request_id)
        return self._connection.run(call, deadline)

    def decrement_elicitation(
        self,
        thread_id: str | None = None,
        *,
        elicitation_id: str | None = None,
        request_id: str = "",
        deadline: Seconds | None = None,
    ) -> Decremented:
        """Closes one elicitation. `elicitation_id` None: the oldest that was opened without a ttl, else the oldest.

        Raises InvalidField, RequestIdReused, NoOutstandingElicitation, ElicitationUnknown, ElicitationReleased,
        ElicitationExpired: nothing changed.
        """
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        call = calls.decrement(thread, elicitation_id=elicitation_id, request_id=request_id)
        return self._connection.run(call, deadline)

    def renew_elicitation(
        self,
        thread_id: str | None = None,
        *,
        elicitation_id: str,
        ttl: Seconds | None = None,
        deadline: Seconds | None = None,
    ) -> Elicitation:
        """Extends one lease: it ends `ttl` from now. `ttl` None: the previous ttl again. Calling it again is harmless.

        Raises InvalidField, ElicitationUnknown, ElicitationReleased, ElicitationExpired: nothing changed.
        """
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        return self._connection.run(calls.renew(thread, elicitation_id, ttl=ttl), deadline)

    def get_pause_state(self, thread_id: str | None = None, *, deadline: Seconds | None = None) -> PauseState:
        """Reads one thread, with its open elicitations.

        Raises InvalidField.
        """
        return self._connection.run(calls.get(calls.resolve_thread(thread_id, self.config.thread_id)), deadline)

    def list_pause_states(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        include_running: bool = False,
        deadline: Seconds | None = None,
    ) -> PauseStatePage:
        """Returns one page of threads: the paused ones, or with `include_running` all known threads.

        `page_size`: 0 means 100; at most 1,000, larger values count as 1,000. `page_token`: the token of the previous page.

        Raises InvalidField.
        """
        call = calls.list_page(page_size=page_size, page_token=page_token, include_running=include_running)
        return self._connection.run(call, deadline)

    def list_pauses(
        self,
        thread_id: str | None = None,
        *,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = 0,
        page_token: str = "",
        deadline: Seconds | None = None,
    ) -> PausePage:
        """Returns one page of ended pauses, latest end first. `thread_id` None: of all threads that the caller may read.

        `start_time`, `end_time`: only pauses that ended at `start_time` or later, and before `end_time`; a time without a time
        zone is UTC. `page_size`: 0 means 100; at most 1,000, larger values count as 1,000. `page_token`: the token of the
        previous page.

        Raises InvalidField; also for a `page_token` from before a restart of the server.
        """
        call = calls.list_pauses(
            thread_id=thread_id or "",
            start_time=start_time,
            end_time=end_time,
            page_size=page_size,
            page_token=page_token,
        )
        return self._connection.run(call, deadline)

    def hold(
        self,
        thread_id: str | None = None,
        *,
        reason: str = "",
        holder: str | None = None,
        ttl: Seconds = DEFAULT_TTL,
        best_effort: bool = False,
    ) -> Hold:
        """An elicitation that is open while a `with` block runs.

        `reason`: the question to the person, up to 1,024 bytes. `holder`: the program that asks, up to 256 bytes; None: this
        program's name and process id. `ttl`: the lease, 1 s to 24 h: if the holder dies, the elicitation ends with it. It is
        renewed after each third of the ttl. `best_effort`: if the thread cannot be paused (no thread is named, no coordinator
        runs, …), a warning is logged and the block runs anyway, as with `pausewatch hold` without `--require`; `failure` has
        the cause. InvalidField is raised in any case.
        """
        named = self.config.thread_id if thread_id is None else thread_id
        thread = named if best_effort else calls.resolve_thread(thread_id, self.config.thread_id)
        return Hold(self._connection, thread, reason, holder, ttl, best_effort)

    def watch(
        self, thread_ids: Iterable[str] | None = None, *, include_elicitations: bool = False, observer: bool = False
    ) -> Watch:
        """Watches these threads, or with None every thread that this client may read. The watch reconnects by itself.

        `observer`: the watch only shows pauses to people, and freezes nothing, so it does not count among the `watchers` of a
        thread.

        Raises InvalidField: an id is not valid, or `thread_ids` is empty.
        """
        return Watch(self._connection, thread_ids, include_elicitations, observer)

    def stopwatch(
        self,
        limit: Seconds | None,
        *,
        thread_id: str | None = None,
        max_wall: Seconds | None = None,
        disconnect_grace: Seconds = DISCONNECT_GRACE,
    ) -> Stopwatch:
        """A stopwatch that expires after `limit` of time in which neither its thread nor the stopwatch itself is paused.

        `limit` None: there is no limit. `max_wall`: the limit on wall time, at which it expires even during a pause and without
        asking the coordinator; `ended_by` says which limit it was. `disconnect_grace`: how long it waits for an unreachable
        coordinator, and how long an unconfirmed pause counts. The stopwatches of a client with the same grace share one
        stream.

        Raises InvalidField: the thread id or a time is not valid.
        """
        thread = calls.resolve_thread(thread_id, self.config.thread_id)
        return Stopwatch(self._connection, thread, limit, max_wall, disconnect_grace)

    def close(self) -> None:
        """Ends the connection and every watch of this client. Calling it again does nothing.

        Stopwatches and timeouts continue, and are no longer paused by their threads: they expire at the end of their limits,
        without asking the coordinator. New ones raise RuntimeError, as every call does.

        Holds that are still open end with their leases. A hold that is being opened is closed, and its `open` raises
        RuntimeError. For that, and for holds that are being closed, it waits for one deadline at most.
        """
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.config.address)!r})"
