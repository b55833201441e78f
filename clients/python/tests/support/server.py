"""A real coordinator: the program of `PAUSEWATCH_PROGRAM`, started by a test."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Server:
    """Serves until the end of its block. It may be killed and started again, on the same address and data."""

    def __init__(self, data: Path | None = None, listen: str = "127.0.0.1:0", *options: str) -> None:
        self.address = listen
        self._store = ["--store", "memory"] if data is None else ["--data-dir", str(data)]
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        program = os.environ.get("PAUSEWATCH_PROGRAM")
        if not program:
            pytest.fail("set PAUSEWATCH_PROGRAM to the path of a built pausewatch")
        self._process = subprocess.Popen(
            [program, "serve", "--listen", self.address, *self._store, *self._options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().split()[1]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
