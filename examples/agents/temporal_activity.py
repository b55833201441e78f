#!/usr/bin/env python3
"""A Temporal activity that runs a command under a limit that stands still while its thread is paused.

Temporal's own limits cannot pause. So `start_to_close_timeout` is for the longest question, `heartbeat_timeout` notices a
dead worker within seconds, and the stopwatch in the activity ends a command that hangs. Heartbeats go on while a person is asked.

As a program it runs the activity in Temporal's test environment, without a server.
Exit codes: the command's; 124 when it was timed out.

    python examples/agents/temporal_activity.py thread-1 10 ./my-tool
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from pausewatch import AsyncStopwatch, pausable_timeout
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

TIMED_OUT = 124


@dataclasses.dataclass
class Command:
    thread_id: str
    limit: float
    arguments: list[str]


@activity.defn
async def run_command(command: Command) -> int:
    """The exit code. ApplicationError of type CommandTimedOut: the limit is used up."""
    environ = os.environ | {"PAUSEWATCH_THREAD_ID": command.thread_id}
    process = await asyncio.create_subprocess_exec(*command.arguments, env=environ)
    try:
        async with pausable_timeout(command.limit, thread_id=command.thread_id) as timeout, heartbeats(timeout.stopwatch):
            return await process.wait()
    except TimeoutError:
        raise ApplicationError(f"timed out after {command.limit:g} s", type="CommandTimedOut", non_retryable=True) from None
    finally:
        # Also if the activity is cancelled.
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def heartbeats(stopwatch: AsyncStopwatch) -> AsyncIterator[None]:
    """Heartbeats, every third of the heartbeat timeout, that say whether the thread is paused and how much time was used."""
    interval = activity.info().heartbeat_timeout or timedelta(seconds=30)

    async def beat() -> None:
        while True:
            activity.heartbeat({"paused": stopwatch.is_paused, "elapsed": stopwatch.elapsed()})
            await asyncio.sleep(interval.total_seconds() / 3)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


async def try_it(command: Command) -> int:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=timedelta(seconds=3))
    environment.on_heartbeat = lambda details: print(f"heartbeat: {details}", flush=True)
    try:
        return int(await environment.run(run_command, command))
    except ApplicationError as error:
        if error.type != "CommandTimedOut":
            raise
        return TIMED_OUT


if __name__ == "__main__":
    _, thread_id, limit, *arguments = sys.argv
    sys.exit(asyncio.run(try_it(Command(thread_id, float(limit), arguments))))
