#!/usr/bin/env python3
"""Runs one command with AnyIO, under a limit that stands still while its thread is paused.

Exit codes: the command's; 124 when it was timed out.

    python examples/agents/anyio_command.py --backend trio thread-1 10 ./my-tool
"""

from __future__ import annotations

import argparse
import os
import sys

import anyio
from pausewatch.anyio import fail_after

TIMED_OUT = 124


async def run(options: argparse.Namespace) -> int:
    environ = os.environ | {"PAUSEWATCH_THREAD_ID": options.thread_id}
    try:
        with fail_after(options.limit, thread_id=options.thread_id):
            # If run_process is cancelled, it kills its process.
            ended = await anyio.run_process(options.command, check=False, env=environ, stdout=None, stderr=None)
            return ended.returncode
    except TimeoutError:
        return TIMED_OUT


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a command under a limit that stands still while its thread is paused.")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("thread_id")
    parser.add_argument("limit", type=float, help="seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    return anyio.run(run, options, backend=options.backend)


if __name__ == "__main__":
    sys.exit(main())
