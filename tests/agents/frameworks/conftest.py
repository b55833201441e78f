"""A coordinator, and commands that ask a person."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pausewatch import Client

from programs import Framework

PAUSEWATCH = os.environ.get("PAUSEWATCH_PROGRAM", "started-without-test")
# Seconds. It ends a test that hangs; a slow machine does not reach it.
PATIENCE = 180


def until(found: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, f"{PATIENCE} s without this: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    serve = [PAUSEWATCH, "serve", "--listen", "127.0.0.1:0", "--store", "memory"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as coordinator:
        assert coordinator.stdout is not None
        yield coordinator.stdout.readline().split()[1]
        coordinator.kill()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client.from_env(address=address, thread_id=f"thread-{uuid.uuid4()}") as client:
        yield client


class Running:
    """One program with a command that asks a person: who is asked when `asked` is there, and answers by `answer`."""

    def __init__(self, framework: Framework, limit: int, then: str, directory: Path, client: Client, ttl: str) -> None:
        self._framework = framework
        self.directory = directory
        asks = "touch asked; until [ -e answer ]; do sleep 0.1; done"
        hold = [PAUSEWATCH, "hold", "--ttl", ttl, "--reason", "Push?", "--", "sh", "-c", asks]
        command = ["sh", "-c", f"{shlex.join(hold)} && {then}"]
        thread_id = client.config.thread_id
        assert thread_id is not None
        words, variables = framework.start(thread_id, limit, command)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PAUSEWATCH_"))}
        self._output = (directory / "output").open("w")
        # Its own process group, which `kill` ends as a whole.
        self.process = subprocess.Popen(
            words,
            cwd=directory,
            env=inherited | {"PAUSEWATCH_ADDRESS": str(client.config.address), **variables},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        return (self.directory / "output").read_text()

    def has(self, name: str) -> bool:
        return (self.directory / name).exists()

    def wait_asked(self) -> None:
        until(lambda: self.has("asked") or self.process.poll() is not None, "a question")
        assert self.has("asked"), self.output

    def answer(self) -> None:
        (self.directory / "answer").touch()

    def kill(self) -> None:
        """As a crash."""
        if self._framework.crashes_as_a_group:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        # Commands that the program has left running end by themselves.
        self.answer()
        if self.process.poll() is None:
            self.kill()
        self._output.close()


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path, client: Client) -> Iterator[Start]:
    started: list[Running] = []

    def start(framework: Framework, limit: int, then: str, ttl: str = "30s") -> Running:
        started.append(Running(framework, limit, then, tmp_path, client, ttl))
        return started[-1]

    yield start
    for running in started:
        running.close()
