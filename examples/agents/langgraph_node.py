#!/usr/bin/env python3
"""A LangGraph node that runs a command under a limit that stands still while the graph's thread is paused.

The pausewatch thread is the graph's own `thread_id`. The node has no `timeout` of LangGraph: that is wall time.

Exit codes: the command's; 124 when it was timed out.

    python examples/agents/langgraph_node.py thread-1 10 ./my-tool
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TypedDict

from langchain_core.runnables import RunnableConfig  # noqa: TC002 - LangGraph reads it from the signature.
from langgraph.graph import END, START, StateGraph
from pausewatch import pausable_timeout

TIMED_OUT = 124


class State(TypedDict):
    limit: float
    command: list[str]
    code: int


async def run_command(state: State, config: RunnableConfig) -> dict[str, int]:
    thread_id = config["configurable"]["thread_id"]
    environ = os.environ | {"PAUSEWATCH_THREAD_ID": thread_id}
    process = await asyncio.create_subprocess_exec(*state["command"], env=environ)
    try:
        async with pausable_timeout(state["limit"], thread_id=thread_id):
            return {"code": await process.wait()}
    except TimeoutError:
        return {"code": TIMED_OUT}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(thread_id: str, limit: float, command: list[str]) -> int:
    builder = StateGraph(State)
    builder.add_node("run_command", run_command)
    builder.add_edge(START, "run_command")
    builder.add_edge("run_command", END)
    graph = builder.compile()
    start: State = {"limit": limit, "command": command, "code": 0}
    end = await graph.ainvoke(start, {"configurable": {"thread_id": thread_id}})
    return int(end["code"])


if __name__ == "__main__":
    _, thread_id, limit, *command = sys.argv
    sys.exit(asyncio.run(run(thread_id, float(limit), command)))
