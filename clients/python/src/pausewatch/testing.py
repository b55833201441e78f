"""A coordinator for the tests of programs that use this library: `pausewatch serve` with a memory store, on a free port.

```python
from pausewatch.testing import Coordinator

with Coordinator() as coordinator, coordinator.client() as client, client.hold("thread-1"):
    assert client.get_pause_state("thread-1").paused
```

It is the real program, so counts, leases, watches and errors are the same as in production.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
import weakref
from pathlib import Path
from typing import Any, Self

from .address import Address
from .aio import AsyncClient
from .client import Client
from .config import Config

__all__ = ["Coordinator", "find_program"]


def find_program() -> str:
    """The path of the program: `PAUSEWATCH_PROGRAM`, else the program that is installed with this library, else that of PATH.

    Raises FileNotFoundError: the program was not found.
    """
    if named := os.environ.get("PAUSEWATCH_PROGRAM"):
        return named
    beside = Path(sysconfig.get_path("scripts"), "pausewatch")
    if found := str(beside) if beside.exists() else shutil.which("pausewatch"):
        return found
    raise FileNotFoundError(
        "the program pausewatch is not installed: put it on the PATH, or its path into the variable PAUSEWATCH_PROGRAM"
    )


class Coordinator:
    """A coordinator that runs while its `with` block runs, or from `start` to `stop`. It ends with this process at the latest.

    `options`: further options of `pausewatch serve`, such as `"--max-pause", "10s"`. `program`: see `find_program`.
    """

    def __init__(self, *options: str, program: str | None = None) -> None:
        self._options = options
        self._program = program
        self._address = "127.0.0.1:0"
        self._end: weakref.finalize[[subprocess.Popen[str]], Coordinator] | None = None

    @property
    def address(self) -> str:
        """Its address: `127.0.0.1:PORT`, the same after a stop and a start. For `PAUSEWATCH_ADDRESS` of the tested program.

        Raises RuntimeError before the first start.
        """
        if self._address.endswith(":0"):
            raise RuntimeError("this coordinator was not started: use it in a with block, or call start()")
        return self._address

    def client(self, **settings: Any) -> Client:
        """A new client of this coordinator. `settings`: other fields of `Config`."""
        return Client(Config(Address.parse(self.address), **settings))

    def async_client(self, **settings: Any) -> AsyncClient:
        """A new asynchronous client of this coordinator. `settings`: other fields of `Config`."""
        return AsyncClient(Config(Address.parse(self.address), **settings))

    def start(self) -> Self:
        """Starts the coordinator, and waits until it listens. After a stop, it starts without its previous state.

        Raises FileNotFoundError: the program was not found. RuntimeError: it is already running, or does not start; the text
        has its error output.
        """
        if self._end is not None and self._end.alive:
            raise RuntimeError("this coordinator is running")
        listen = self._address.removeprefix("https://")
        command = [self._program or find_program(), "serve", "--listen", listen, "--store", "memory", *self._options]
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)  # noqa: S603
            self._end = weakref.finalize(self, _kill, process)
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if len(words) != 2 or words[0] != "listening":
                self.stop()
                errors.seek(0)
                raise RuntimeError(f"{' '.join(command)}: does not start: {errors.read().strip()}")
        self._address = words[1]
        return self

    def stop(self) -> None:
        """Kills the coordinator, as in a crash. Calling it again does nothing."""
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
