"""What the blocks of the pages use and do not show."""

import asyncio
import sys
from typing import Any

from pausewatch import Client

client = Client.from_env()
command = [sys.executable, "-c", "print('the command')"]


def print_until_known(*parts: Any) -> None:
    """A watch runs until it is closed: here it ends with its client, after the known states."""
    print(*parts)
    if parts[0] == "initial states complete":
        client.close()


class Process:
    async def wait(self) -> int:
        started = await asyncio.create_subprocess_exec(*command)
        return await started.wait()


process = Process()


async def ask_the_person() -> bool:
    assert client.get_pause_state("thread-1").count == 1, "the block holds the thread"
    return True


async def run_the_command() -> None:
    assert await process.wait() == 0


class SubAgent:
    async def result(self) -> str:
        return "done"


sub_agent = SubAgent()
