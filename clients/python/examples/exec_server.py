#!/usr/bin/env python3
"""Runs one command under a limit that stands still while its thread is paused, as an exec server does for each command.

Exit codes: the command's; 124 when it was timed out.

    python examples/exec_server.py --thread-id thread-1 --limit 10 ./my-tool
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from pausewatch import pausable_timeout

TIMED_OUT = 124


async def run(options: argparse.Namespace) -> int:
    # The command and its children find the thread in their environment, and can hold it.
    environ = os.environ | {"PAUSEWATCH_THREAD_ID": options.thread_id}
    process = await asyncio.create_subprocess_exec(*options.command, env=environ)
    try:
        async with pausable_timeout(options.limit, thread_id=options.thread_id):
            return await process.wait()
    except TimeoutError:
        print(f"exec_server: timed out after {options.limit:g} s of its own time", file=sys.stderr)
        return TIMED_OUT
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a command under a limit that stands still while its thread is paused.")
    parser.add_argument("--thread-id", required=True, help="the thread that the command belongs to")
    parser.add_argument("--limit", type=float, default=10, help="seconds (default: 10)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
