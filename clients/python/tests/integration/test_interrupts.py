"""Exceptions that a signal handler raises, at random moments of the main thread: nothing hangs afterwards and nothing stays
open.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.server import Server

import pausewatch as pw

_INTERRUPTED = """
import faulthandler, os, random, signal, sys, pausewatch

faulthandler.dump_traceback_later(45, exit=True)
client = pausewatch.Client.from_env(thread_id="interrupted")
lasting = client.stopwatch(3_600)
watch = client.watch()
counted = 0

class Interrupted(Exception if sys.argv[1] == "Exception" else BaseException):
    pass

def handler(*_):
    global counted
    counted += 1
    raise Interrupted

signal.signal(signal.SIGALRM, handler)

def holds():
    with client.hold(reason="May I?") as hold:
        hold.lost(0)
    client.hold().open().release()

def others():
    with client.watch(["interrupted"]) as own, client.stopwatch(60) as stopwatch:
        own.next(0.001)
        own.add("another")
        with stopwatch.pause(), stopwatch.await_thread("another"):
            stopwatch.wait_expired(0.001)
        stopwatch.elapsed()
        watch.next(0)
    client.get_pause_state()

def clients():
    with pausewatch.Client(client.config) as other:
        with other.hold(), other.stopwatch(60):
            pass

def play(work, longest):
    for _ in range(100):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, longest))
            work()
        except Interrupted:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

play(holds, 0.005)
play(others, 0.005)
play(clients, 0.01)
print("interrupted" if counted > 50 else counted, flush=True)

# A stopwatch that was started before still runs and ends, and so does a watch.
signal.signal(signal.SIGALRM, signal.SIG_IGN)
with client.stopwatch(0.05, thread_id="free") as stopwatch:
    print(stopwatch.wait_expired(), lasting.is_paused, flush=True)
client.get_pause_state(deadline=20)
print("answered", flush=True)
client.close()
print("closed", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("kind", ["Exception", "KeyboardInterrupt"])
def test_exceptions_of_signal_handlers_leave_nothing_locked_and_no_elicitation_open(kind: str) -> None:
    with Server() as server:
        environ = os.environ | {"PAUSEWATCH_ADDRESS": server.address, "PYTHONPATH": "src"}
        command = [sys.executable, "-c", _INTERRUPTED, kind]
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=55, check=False)
        assert ended.stdout.splitlines()[-1:] == ["closed"], ended.stdout + ended.stderr
        assert "interrupted" in ended.stdout
        with pw.Client(pw.Config(pw.Address.parse(server.address))) as client:
            assert client.list_pause_states().pause_states == ()
