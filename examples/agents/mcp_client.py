#!/usr/bin/env python3
"""Calls the tool of `mcp_server.py` under a limit that stands still while its thread is paused.

The client of the SDK has no limit of its own unless `read_timeout_seconds` is given: leave it out. The end of the block tells
the server that the call is cancelled.

Exit codes: the command's; 124 when the call was timed out.

    python examples/agents/mcp_client.py thread-1 10 ./my-tool
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from pausewatch.anyio import fail_after

TIMED_OUT = 124


async def call(thread_id: str, limit: float, command: list[str]) -> int:
    # The SDK passes on only a few variables.
    environ = os.environ | {"PAUSEWATCH_THREAD_ID": thread_id}
    server = Path(__file__).with_name("mcp_server.py")
    started = stdio_client(StdioServerParameters(command=sys.executable, args=[str(server)], env=environ))
    async with Client(started) as client:
        try:
            with fail_after(limit, thread_id=thread_id):
                result = await client.call_tool("run", {"command": command})
        except TimeoutError:
            return TIMED_OUT
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"the tool failed: {result.content}")
    return int(result.structured_content["result"])


if __name__ == "__main__":
    _, thread_id, limit, *command = sys.argv
    sys.exit(asyncio.run(call(thread_id, float(limit), command)))
