#!/usr/bin/env python3
"""An MCP server on standard input and output with one tool, `run`. A command that asks a person holds its thread.

The client names the coordinator and the thread by the environment of this process.
"""

from __future__ import annotations

import asyncio
import os
import signal

from mcp.server import MCPServer

server = MCPServer("commands")


@server.tool()
async def run(command: list[str]) -> int:
    """Runs a command, and returns its exit code."""
    # Standard input and output are used by the protocol.
    nothing = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=nothing, stdout=nothing, process_group=0)
    try:
        return await process.wait()
    finally:
        # The client has given up, or has gone. If a tool of the command is asking somebody, it must not keep the thread
        # paused.
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())


if __name__ == "__main__":
    server.run()
