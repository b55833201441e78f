"""The programs under test: each runs a command under a limit, in a thread, with another framework."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples/agents"
# The compiled programs.
BUILT = Path(os.environ.get("FRAMEWORKS_BUILT", "started-without-test"))


@dataclass(frozen=True)
class Framework:
    """`arguments`: of the program; {thread}, {limit} and {ms} are replaced, and the command follows."""

    arguments: tuple[str, ...]
    timed_out: int = 124
    # Text in its output after a limit has ended the command, and while the thread is paused.
    says_at_the_limit: str = ""
    says_while_paused: str = ""
    # Whether the limit also ends the command.
    ends_command: bool = True
    # Whether a crash ends all its processes; otherwise it ends only the program, and the program's server must notice.
    crashes_as_a_group: bool = True

    def start(self, thread_id: str, limit: int, command: list[str]) -> tuple[list[str], Mapping[str, str]]:
        words = [part.format(thread=thread_id, limit=limit, ms=limit * 1000) for part in self.arguments]
        if "pytest" in words:
            return words, {"COMMAND": json.dumps(command), "PAUSEWATCH_THREAD_ID": thread_id}
        return [*words, *command], {}


def _example(name: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, str(EXAMPLES / name), *options, "{thread}", "{limit}")


def _pytest(*options: str) -> tuple[str, ...]:
    plain = ("-m", "pytest", "-p", "pausewatch.pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--timeout={limit}")
    return (sys.executable, *plain, *options, str(HERE / "asks_in_pytest.py"))


FRAMEWORKS = {
    "pytest-signal": Framework(_pytest("--timeout-method=signal"), timed_out=1, says_at_the_limit="s) from pytest-timeout."),
    # It ends with os._exit, which leaves the commands of the test running.
    "pytest-thread": Framework(
        _pytest("--timeout-method=thread"), timed_out=1, says_at_the_limit="Stack of MainThread", ends_command=False
    ),
    "anyio-asyncio": Framework(_example("anyio_command.py", "--backend", "asyncio")),
    "anyio-trio": Framework(_example("anyio_command.py", "--backend", "trio")),
    "mcp-python": Framework(_example("mcp_client.py"), crashes_as_a_group=False),
    "mcp-typescript": Framework(("node", str(BUILT / "mcp-client.js"), "{thread}", "{ms}"), crashes_as_a_group=False),
    "langgraph": Framework(_example("langgraph_node.py")),
    "temporal": Framework(_example("temporal_activity.py"), says_while_paused="heartbeat: {'paused': True"),
}
