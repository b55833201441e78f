"""The synchronous client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ._io import calls
from ._io.connection import Connection
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
    """A connection to a coordinator, made at the first call and again whenever it is lost. Any thread may use it.

    Every call has a deadline, 5 s unless told otherwise, and is repeated within it, with random pauses and the same request
    id, while the coordinator is unavailable or the rate limit is exceeded. It raises the errors that it is documented to have,
    or LimitExceeded (nothing changed), or Unavailable, StoreUnavailable or DeadlineExceeded (whether it counted is unknown:
    call again with the same request id), or CallError.

    A forked child needs a client of its own.
    """

    def __init__(self, config: Config | None = None) -> None:
        """A client with these settings, by default those of `Config()`. Does not connect yet, and looks at no environment.

        Raises ConfigError: a file for TLS cannot be read, or is not what it should be.
        """
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
        """A client with the settings of the arguments, else of the environment, else of the config file; see `Config.load`.

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
        """Its settings."""
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
        """Opens one elicitation, and leaves it to you to renew and close it; `hold` does both.

        `thread_id`: the configured one unless given. `ttl`: 1 s to 24 h; None: the server's default. `request_id`: a random
        one unless given.

        Raises InvalidField, RequestIdReused, TooManyElicitations, LimitExceeded: nothing changed.
        """
        thread = calls.the_thread(thread_id, self.config.thread_id)
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
        """Closes one elicitation: that one, or with None the oldest that was opened without a ttl, else the oldest.

        Raises InvalidField, RequestIdReused, NoOutstandingElicitation, ElicitationUnknown, ElicitationReleased,
        ElicitationExpired: nothing changed.
        """
        thread = calls.the_thread(thread_id, self.config.thread_id)
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
        """Extends one lease: it ends `ttl` from now; None: as long again as it has been. Again is harmless.

        Raises InvalidField, ElicitationUnknown, ElicitationReleased, ElicitationExpired: nothing changed.
        """
        thread = calls.the_thread(thread_id, self.config.thread_id)
        return self._connection.run(calls.renew(thread, elicitation_id, ttl=ttl), deadline)

    def get_pause_state(self, thread_id: str | None = None, *, deadline: Seconds | None = None) -> PauseState:
        """Reads one thread, with its open elicitations.

        Raises InvalidField.
        """
        return self._connection.run(calls.get(calls.the_thread(thread_id, self.config.thread_id)), deadline)

    def list_pause_states(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        include_running: bool = False,
        deadline: Seconds | None = None,
    ) -> PauseStatePage:
        """One page of threads: the paused ones, or with `include_running` all that are known.

        `page_size`: 0 means 100; above 1,000 is cut to that. `page_token`: that of the page before.

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
        """One page of ended pauses, the last one to end first: of one thread, or with None of all that the caller may see.

        `start_time`, `end_time`: only pauses that ended at the first or later, and before the second; a time without a time zone
        is UTC. `page_size`: 0 means 100; above 1,000 is cut to that. `page_token`: that of the page before.

        Raises InvalidField; for a `page_token` also after a restart of the server.
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
        """An elicitation that is open while a `with` block lives.

        `reason`: what the person is asked, up to 1,024 bytes. `holder`: who asks, up to 256 bytes; None: this program's name
        and process id. `ttl`: how long it outlives a holder that died, 1 s to 24 h; it is renewed every third of it.
        `best_effort`: if the thread cannot be paused (no thread is named, no coordinator runs, …), a warning is logged and the
        block runs all the same, as with `pausewatch hold` without `--require`; `failure` says why. InvalidField is raised.
        """
        named = self.config.thread_id if thread_id is None else thread_id
        thread = named if best_effort else calls.the_thread(thread_id, self.config.thread_id)
        return Hold(self._connection, thread, reason, holder, ttl, best_effort)

    def watch(
        self, thread_ids: Iterable[str] | None = None, *, include_elicitations: bool = False, observer: bool = False
    ) -> Watch:
        """Watches these threads, or with None every thread that this client may see, across lost connections.

        `observer`: it shows pauses to people, and freezes nothing, so it does not count among the `watchers` of a thread.

        Raises InvalidField: no thread can have such an id, or there is none.
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
        """A stopwatch that expires after `limit` of time in which neither its thread nor itself is paused.

        `limit` None: there is none. `max_wall`: when it expires at the latest, whatever is paused and without asking the
        coordinator; `ended_by` says which limit it was. `disconnect_grace`: for how long it waits for a coordinator that
        cannot be asked, and a pause counts that cannot be confirmed. The stopwatches of a client with the same grace share
        one stream.

        Raises InvalidField: no thread can have this id.
        """
        thread = calls.the_thread(thread_id, self.config.thread_id)
        return Stopwatch(self._connection, thread, limit, max_wall, disconnect_grace)

    def close(self) -> None:
        """Ends the connection, and with it every watch of this client; again is harmless.

        Stopwatches and timeouts run on, and from now on no thread pauses them: they expire at the end of their limits, and nobody
        is asked before. A new one raises RuntimeError, as any call does.

        Holds that are left open end with their leases; those that are being closed in the background get one deadline.
        """
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.config.address)!r})"
