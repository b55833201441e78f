"""A pytest plugin: the timers of pytest-timeout stand still while the thread is paused. `pytest -p pausewatch.pytest`.

It replaces the timer of pytest-timeout. When its own timer expires it does the same as pytest-timeout: it dumps the stacks, and
then fails the test (method `signal`) or ends the process (method `thread`). All settings are those of pytest-timeout.

1. pytest-timeout decides what a timer covers: a test with its fixtures, or with `func_only` only the test.
2. A cancelled timer does nothing: no signal is sent after the handler was removed.
3. Without a thread, pytest-timeout's own timers are used.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from .client import Client
from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .stopwatch import Stopwatch

_TESTED = "2.4"
_PLUGIN = pytest.StashKey["PausablePytestTimeout"]()
_TIMER = pytest.StashKey["_Timer"]()


def pytest_configure(config: pytest.Config) -> None:
    """Replaces the timers, if there is a thread.

    Raises UsageError: pytest-timeout is missing or incompatible, or the settings of the client are not valid.
    """
    pytest_timeout = config.pluginmanager.get_plugin("timeout") or config.pluginmanager.get_plugin("pytest_timeout")
    if pytest_timeout is None:
        raise pytest.UsageError(
            "pausewatch.pytest pauses the timers of pytest-timeout, which is not installed or is disabled: "
            f"install pytest-timeout {_TESTED}, or leave out `-p pausewatch.pytest`"
        )
    if not (hasattr(pytest_timeout, "timeout_sigalrm") and hasattr(pytest_timeout, "timeout_timer")):
        raise pytest.UsageError(
            f"pausewatch.pytest was tested with pytest-timeout {_TESTED}, and cannot end tests as version "
            f"{_version_of(config, pytest_timeout)} does: install {_TESTED}, or leave out `-p pausewatch.pytest`"
        )
    try:
        client = Client.from_env()
    except ConfigError as error:
        raise pytest.UsageError(f"pausewatch.pytest: {error}") from error
    config.stash[_PLUGIN] = plugin = PausablePytestTimeout(client, pytest_timeout)
    config.pluginmanager.register(plugin, "pausewatch-timers")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Closes the connection."""
    if (plugin := config.stash.get(_PLUGIN, None)) is not None:
        plugin.close()


def _version_of(config: pytest.Config, plugin: object) -> str:
    for candidate, distribution in config.pluginmanager.list_plugin_distinfo():
        if candidate is plugin:
            return str(distribution.version)
    return "(unknown)"


class PausablePytestTimeout:
    """The plugin that `pytest_configure` registers: the hooks of pytest-timeout, with one client for all timers."""

    def __init__(self, client: Client, pytest_timeout: Any) -> None:
        self._client = client
        self._pytest_timeout = pytest_timeout

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def pytest_report_header(self) -> str:
        """The header line that names the thread."""
        config = self._client.config
        if not config.thread_id:
            return "pausewatch: no thread (PAUSEWATCH_THREAD_ID is not set), so the timers of pytest-timeout never pause"
        return f"pausewatch: timers pause with thread {config.thread_id} at {config.address}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """Starts the pausable timer of a test instead of pytest-timeout's own."""
        if not self._client.config.thread_id:
            return None
        if settings.method == "signal" and threading.current_thread() is threading.main_thread():
            started: _Timer = _SignalTimer(lambda: self._pytest_timeout.timeout_sigalrm(item, settings))
        else:
            started = _Timer(lambda: self._pytest_timeout.timeout_timer(item, settings))
        started.start(self._client.stopwatch(settings.timeout))
        item.stash[_TIMER] = started
        return True

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool | None:
        """Cancels the timer. pytest-timeout also calls this for nodes without a timer, and several times."""
        timer = item.stash.get(_TIMER, None)
        if timer is None:
            return None
        del item.stash[_TIMER]
        timer.cancel()
        return True


class _Timer:
    """The timer of the method `thread`: when it expires, a thread dumps the stacks and ends the process."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._cancelled = False
        self._stopwatch: Stopwatch | None = None

    def start(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        stopwatch.call_when_expired(self._expired)

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
        if self._stopwatch is not None:
            self._stopwatch.stop()

    def _expired(self) -> None:
        with self._lock:
            if not self._cancelled:
                self._act()

    def _act(self) -> None:
        self._end()


class _SignalTimer(_Timer):
    """The timer of the method `signal`: when it expires, the main thread gets SIGALRM, whose handler fails the test."""

    def start(self, stopwatch: Stopwatch) -> None:
        signal.signal(signal.SIGALRM, self._handle)
        super().start(stopwatch)

    def cancel(self) -> None:
        super().cancel()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _handle(self, *_: object) -> None:
        __tracebackhide__ = True
        self._end()

    def _act(self) -> None:
        # Sent to the main thread, so that its blocking calls are interrupted.
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGALRM)
