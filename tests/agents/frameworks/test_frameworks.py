"""The same three facts for each framework: a question does not use up the limit, a hang does, and a crash freezes nothing."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from pausewatch import Client

from conftest import PATIENCE, Start, until
from programs import FRAMEWORKS, HERE, Framework

# Seconds. The test pauses a thread until its command asks, so that a slow start does not use up the limit. A question
# takes longer than this limit, and the work of a command after its answer takes a fraction of it.
LIMIT = 12
# The limit of a command that hangs.
SHORT_LIMIT = 2
# The limit of a command that no test waits for.
LONG_LIMIT = 600

every_framework = pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)


@every_framework
def test_a_question_that_outlasts_the_limit_leaves_what_was_left(framework: Framework, start: Start, client: Client) -> None:
    with client.hold(reason="until it asks"):
        running = start(framework, LIMIT, "touch finished")
        running.wait_asked()
    # Real time is tested.
    time.sleep(LIMIT + 1)
    assert running.process.poll() is None, running.output
    running.answer()
    assert running.process.wait(PATIENCE) == 0, running.output
    assert running.has("finished")
    assert framework.says_while_paused in running.output


@every_framework
def test_a_hang_after_the_question_is_ended(framework: Framework, start: Start, client: Client) -> None:
    with client.hold(reason="until it hangs"):
        running = start(framework, SHORT_LIMIT, "echo $$ >pid.new && mv pid.new pid && exec sleep 1000")
        running.wait_asked()
        running.answer()
        until(lambda: running.has("pid") or running.process.poll() is not None, "the hang")
    assert running.process.wait(PATIENCE) == framework.timed_out, running.output
    assert framework.says_at_the_limit in running.output
    hanging = int((running.directory / "pid").read_text())
    if framework.ends_command:
        until(lambda: not is_running(hanging), "the end of the command")
    else:
        os.kill(hanging, 9)


@every_framework
def test_killed_during_a_question_it_leaves_nothing_paused(framework: Framework, start: Start, client: Client) -> None:
    running = start(framework, LONG_LIMIT, "touch finished", ttl="5s")
    running.wait_asked()
    assert client.get_pause_state().count == 1
    running.kill()
    until(lambda: client.get_pause_state().count == 0, "the end of the pause")
    assert not running.has("finished")


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A zombie counts as ended.
    return ") Z " not in Path(f"/proc/{process}/stat").read_text() if Path("/proc/self").exists() else True


@pytest.mark.parametrize("package", ["pytest-timeout", "anyio", "trio", "mcp", "langgraph", "temporalio"])
def test_these_are_the_versions_that_the_documentation_names(package: str) -> None:
    assert f"{package} {version(package)}" in documentation()


def test_this_is_the_version_of_the_typescript_sdk_that_the_documentation_names() -> None:
    assert '"@modelcontextprotocol/sdk": "1.32.2"' in (HERE / "package.json").read_text()
    assert "@modelcontextprotocol/sdk 1.32.2" in documentation()


def documentation() -> str:
    return (HERE.parents[2] / "docs/agents.md").read_text()
