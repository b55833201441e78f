"""What becomes of a process with an open client: its exit, its forks, its threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time

import pytest
from support.server import Server

import pausewatch as pw

_EVERYTHING_OPEN = """
import pausewatch, sys
client = pausewatch.Client.from_env(thread_id="exit")
hold = client.hold().open()
watch = client.watch(["exit"])
next(watch)
stopwatch = client.stopwatch(60)
stopwatch.call_when_expired(print)
print("open", flush=True)
"""

_EVERYTHING_OPEN_ASYNC = """
import asyncio, pausewatch
async def main():
    client = pausewatch.AsyncClient.from_env(thread_id="exit")
    hold = await client.hold().open()
    watch = client.watch(["exit"])
    await anext(watch)
    async with pausewatch.pausable_timeout(60, thread_id="exit"):
        print("open", flush=True)
asyncio.run(main())
"""


_WATCHES_CLOSED_AT_ONCE = """
import asyncio, gc, pausewatch
async def main():
    async with pausewatch.AsyncClient.from_env() as client:
        for turns in range(100):
            watch = client.watch(["closed"])
            for _ in range(turns % 5):
                await asyncio.sleep(0)
            watch.close()
asyncio.run(main())
gc.collect()
"""

_MANY_LOOPS = """
import asyncio, gc, pausewatch
async def main(number):
    async with pausewatch.pausable_timeout(60, thread_id="loops"):
        await asyncio.sleep(number / 1000)
for number in range(20):
    asyncio.run(main(number))
    gc.collect()
"""


@pytest.mark.parametrize("program", [_WATCHES_CLOSED_AT_ONCE, _MANY_LOOPS])
def test_an_event_loop_that_ends_leaves_nothing_to_complain_about(server: Server, program: str) -> None:
    ended = run(server, program)
    assert (ended.returncode, ended.stderr) == (0, "")


def run(server: Server, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PAUSEWATCH_ADDRESS": server.address, "PYTHONPATH": "src"} | variables
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("program", [_EVERYTHING_OPEN, _EVERYTHING_OPEN_ASYNC])
def test_a_process_ends_with_everything_open(server: Server, program: str) -> None:
    # Within the 30 s of run: its stopwatch has twice as long.
    ended = run(server, program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "open\n", "")


def test_a_forked_child_must_create_its_own_client(client: pw.Client) -> None:
    client.get_pause_state()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.get_pause_state()
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"made before the fork" in os.read(reading, 1_000)
    os.close(reading)
    os.close(writing)


_FORKED_WITH_EVERYTHING_OPEN = """
import faulthandler, os, sys, pausewatch
with pausewatch.Client.from_env(thread_id="fork") as client:
    with client.watch(["fork"]) as watch, client.hold() as hold, client.stopwatch(60) as stopwatch:
        next(watch)
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(10, exit=True)
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(hold.lease.value, client.get_pause_state().count, stopwatch.is_paused)
"""


def test_a_forked_child_leaves_blocks_and_the_parents_holds_stay_open(server: Server) -> None:
    # Without the variable too, gRPC has its own fork handlers, and they sometimes crash the child if a thread is inside gRPC.
    ended = run(server, _FORKED_WITH_EVERYTHING_OPEN, GRPC_ENABLE_FORK_SUPPORT="0")
    assert (ended.returncode, ended.stdout) == (0, "7\nheld 1 True\n"), ended.stderr


_FORKED_WITH_A_CLIENT_OF_ITS_OWN = """
import faulthandler, os, pausewatch
with pausewatch.Client.from_env() as client, client.watch(["fork"]) as watch:
    next(watch)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        with pausewatch.Client.from_env() as own:
            os._exit(7 + own.get_pause_state("fork").count)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(client.get_pause_state("fork").count)
"""


def test_with_the_fork_support_of_grpc_a_child_of_a_parent_with_a_watch_can_call(server: Server) -> None:
    ended = run(server, _FORKED_WITH_A_CLIENT_OF_ITS_OWN, GRPC_ENABLE_FORK_SUPPORT="1")
    assert (ended.returncode, ended.stdout) == (0, "7\n0\n"), ended.stderr


_FORKED_WHILE_A_STREAM_IS_BEING_READ = """
import grpc, os, pausewatch, time
busy = []
class Slow:
    def __init__(self, call): self.call = call
    def __getattr__(self, name): return getattr(self.call, name)
    def __iter__(self): return self
    def __next__(self):
        busy.append(1)
        time.sleep(0.1)
        busy.pop()
        return next(self.call)
class Slowly(grpc.StreamStreamClientInterceptor):
    def intercept_stream_stream(self, call, details, requests): return Slow(call(details, requests))
config = pausewatch.Config(pausewatch.Address.parse(os.environ["PAUSEWATCH_ADDRESS"]), interceptors=[Slowly()])
with pausewatch.Client(config) as client, client.watch(["fork"]) as watch:
    next(watch)
    while not busy: pass
    child = os.fork()
    if child == 0:
        os._exit(7 + len(busy))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_with_the_fork_support_of_grpc_a_fork_waits_until_no_stream_is_being_read(server: Server) -> None:
    ended = run(server, _FORKED_WHILE_A_STREAM_IS_BEING_READ, GRPC_ENABLE_FORK_SUPPORT="1")
    assert (ended.returncode, ended.stdout) == (0, "7\n"), ended.stderr


def test_a_closed_client_leaves_no_thread_behind(server: Server, thread_id: str) -> None:
    before = set(threading.enumerate())
    client = pw.Client.from_env(address=server.address, thread_id=thread_id, token_source=lambda: "token")
    with client.hold(), client.watch() as watch, client.stopwatch(0, thread_id="another") as stopwatch:
        next(watch)
        stopwatch.call_when_expired(lambda: None)
        assert stopwatch.wait_expired(timeout=30)
    client.close()
    gone(before)


def test_a_garbage_collected_client_leaves_no_thread_behind(server: Server, thread_id: str) -> None:
    before = set(threading.enumerate())
    client = pw.Client.from_env(address=server.address, thread_id=thread_id, token_source=lambda: "token")
    watch = client.watch()
    next(watch)
    del client, watch
    gc.collect()
    gone(before)


def gone(before: set[threading.Thread]) -> None:
    deadline = time.monotonic() + 30
    while left := {thread.name for thread in threading.enumerate() if thread not in before}:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
