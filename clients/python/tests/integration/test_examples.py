"""The examples, as their readers run them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from support.server import Server

import pausewatch as pw


@pytest.fixture
def environ(server: Server, thread_id: str) -> dict[str, str]:
    ours = {"PAUSEWATCH_ADDRESS": server.address, "PAUSEWATCH_THREAD_ID": thread_id, "PYTHONPATH": "src"}
    return {**os.environ, **ours}


def run(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--deny"], 1)])
def test_approve_returns_the_persons_answer(environ: dict[str, str], options: list[str], code: int) -> None:
    ended = run(environ, "examples/approve.py", "--answer-after", "0.01", *options, "Push?")
    assert (ended.returncode, ended.stderr) == (code, "Push? [y/N] (a person thinks for 0.01 s)\n")


def test_approve_reports_a_late_answer(environ: dict[str, str], client: pw.Client, thread_id: str) -> None:
    asking = subprocess.Popen(
        [sys.executable, "examples/approve.py", "--answer-after", "10", "Push?"], env=environ, stderr=subprocess.PIPE, text=True
    )
    with client.watch([thread_id]) as watch:
        for event in watch:
            if isinstance(event, pw.State) and event.state.count == 1:
                break
    client.decrement_elicitation()
    _, errors = asking.communicate(timeout=30)
    assert asking.returncode == 2
    assert "the answer came too late" in errors


def test_approve_without_a_coordinator_fails(environ: dict[str, str]) -> None:
    ended = run({**environ, "PAUSEWATCH_ADDRESS": "localhost"}, "examples/approve.py", "Push?")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "approve: address" in ended.stderr


_EXEC_SERVERS = [
    ["exec_server.py", "--thread-id", "{thread}", "--limit", "{limit}"],
    ["subprocess_deadline.py", "{thread}", "{limit}"],
]


def under(program: list[str], thread_id: str, limit: float) -> list[str]:
    return [f"examples/{part}" if part.endswith(".py") else part.format(thread=thread_id, limit=limit) for part in program]


@pytest.mark.parametrize("program", _EXEC_SERVERS)
def test_an_exec_server_ends_a_hanging_command(environ: dict[str, str], thread_id: str, program: list[str]) -> None:
    started = time.monotonic()
    assert run(environ, *under(program, thread_id, 0.3), "sleep", "60").returncode == 124
    # Within the 30 s of run: a command that is not ended takes twice as long.
    assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize("program", _EXEC_SERVERS)
def test_g1_an_exec_server_waits_for_a_person(environ: dict[str, str], thread_id: str, program: list[str]) -> None:
    # On a busy machine the start of Python takes seconds, which count.
    asks = [sys.executable, "examples/approve.py", "--answer-after", "6.5", "Push?"]
    assert run(environ, *under(program, thread_id, 6), *asks).returncode == 0
