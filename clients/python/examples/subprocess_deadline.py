#!/usr/bin/env python3
"""The same as `exec_server.py` without asyncio: a synchronous stopwatch as the deadline of a subprocess.

python examples/subprocess_deadline.py thread-1 10 ./my-tool
"""

from __future__ import annotations

import os
import subprocess
import sys

from pausewatch import Client

TIMED_OUT = 124


def run(thread_id: str, limit: float, command: list[str]) -> int:
    """The command's exit code; 124 when it was timed out."""
    with Client.from_env() as client, client.stopwatch(limit, thread_id=thread_id) as stopwatch:
        process = subprocess.Popen(command, env=os.environ | {"PAUSEWATCH_THREAD_ID": thread_id})
        stopwatch.call_when_expired(process.kill)
        code = process.wait()
        return TIMED_OUT if stopwatch.is_expired else code


if __name__ == "__main__":
    _, thread_id, limit, *command = sys.argv
    sys.exit(run(thread_id, float(limit), command))
