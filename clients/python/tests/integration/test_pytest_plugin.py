"""`pytest -p pausewatch.pytest`, as a project runs it: in a process of its own, with pytest-timeout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.server import Server

import pausewatch as pw

_SRC = Path(__file__).parents[2] / "src"


class Project:
    """Test files in a directory without settings."""

    def __init__(self, directory: Path, address: str, thread_id: str) -> None:
        self.directory = directory
        dropped = ("PYTEST", "PAUSEWATCH", "CODEX", "CLAUDE")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self.environ = inherited | {
            "PYTHONPATH": str(_SRC),
            "PAUSEWATCH_ADDRESS": address,
            "PAUSEWATCH_THREAD_ID": thread_id,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        (directory / "pytest.ini").write_text("[pytest]\n")

    def start(self, tests: str, *options: str) -> subprocess.Popen[str]:
        (self.directory / "test_it.py").write_text(f"import pathlib, time\nimport pytest\n\n{tests}")
        command = [sys.executable, "-m", "pytest", "-p", "pausewatch.pytest", "-p", "no:asyncio", *options, "test_it.py"]
        return subprocess.Popen(
            command, cwd=self.directory, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, tests: str, *options: str) -> tuple[int, str]:
        with self.start(tests, *options) as process:
            output, _ = process.communicate(timeout=50)
        return process.returncode, output


@pytest.fixture
def project(tmp_path: Path, server: Server, thread_id: str) -> Project:
    return Project(tmp_path, server.address, thread_id)


_EVERY_KIND = """
@pytest.mark.timeout(0.4, method="signal")
def test_signal(): time.sleep(1)

@pytest.mark.timeout(0.4, method="thread")
def test_thread(): time.sleep(1)

@pytest.mark.timeout(0.4, func_only=True)
def test_func_only(): time.sleep(1)

def test_of_the_command_line(): time.sleep(1)

@pytest.fixture
def slow():
    time.sleep(1)
    yield
    time.sleep(1)

def test_fixtures(slow): pass
"""


def test_g1_no_timer_runs_while_the_thread_is_paused(project: Project, client: pw.Client) -> None:
    with client.hold():
        code, output = project.run(_EVERY_KIND, "--timeout=0.4")
    assert code == 0, output
    assert "5 passed" in output


# Limits that end in the test on a busy machine too, not in pytest between its phases.
def test_a_hanging_test_is_ended_as_by_pytest_timeout(project: Project) -> None:
    tests = """
@pytest.mark.timeout(2)
def test_body(): time.sleep(60)

@pytest.fixture
def hangs_before():
    time.sleep(60)

@pytest.fixture
def hangs_after():
    yield
    time.sleep(60)

@pytest.mark.timeout(2)
def test_setup(hangs_before): pass

@pytest.mark.timeout(2)
def test_teardown(hangs_after): pass

@pytest.mark.timeout(2, func_only=True)
def test_func_only(): time.sleep(60)

def test_without_a_limit(): time.sleep(0.5)
"""
    code, output = project.run(tests, "-rA")
    assert code == 1
    assert output.count("Failed: Timeout (>2.0s) from pytest-timeout.") >= 4, output
    assert "+ Timeout +" in output
    assert "Stack of pausewatch" in output
    for line in ("FAILED test_it.py::test_body", "ERROR test_it.py::test_setup", "ERROR test_it.py::test_teardown"):
        assert line in output
    assert "2 failed, 2 passed, 2 errors" in output


def test_func_only_does_not_count_fixtures(project: Project) -> None:
    tests = """
@pytest.fixture
def slow():
    time.sleep(1.5)
    yield
    time.sleep(1.5)

@pytest.mark.timeout(1, func_only=True)
def test_it(slow): pass
"""
    code, output = project.run(tests)
    assert code == 0, output


def test_the_method_thread_ends_the_process_with_the_dump(project: Project) -> None:
    tests = "def test_it():\n    print('printed before')\n    time.sleep(60)\n\ndef test_never(): pass\n"
    code, output = project.run(tests, "--timeout=2", "--timeout-method=thread")
    assert code == 1
    assert "+ Timeout +" in output
    assert "printed before" in output
    assert "Stack of MainThread" in output
    assert "passed" not in output


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_after_the_question_a_hang_is_ended(project: Project, client: pw.Client, method: str) -> None:
    tests = "def test_it():\n    time.sleep(1.5)\n    pathlib.Path('outlasted').touch()\n    time.sleep(60)\n"
    hold = client.hold()
    with hold:
        process = project.start(tests, "--timeout=0.3", f"--timeout-method={method}")
        while not (project.directory / "outlasted").exists():
            assert process.poll() is None, process.communicate()
    with process:
        output, _ = process.communicate(timeout=50)
    assert process.returncode == 1
    assert "+ Timeout +" in output


def test_a_cancelled_timer_does_nothing(project: Project) -> None:
    # Tests that end in the moment of their timeout: each passes or fails, and no late signal kills the process. The tests
    # alone are timed: between its phases, pytest itself does not survive pytest-timeout's failure.
    tests = """
@pytest.mark.parametrize("_", range(40))
@pytest.mark.timeout(0.01, func_only=True)
def test_it(_):
    end = time.monotonic() + 0.01
    while time.monotonic() < end: pass

def test_last(): time.sleep(0.2)
"""
    code, output = project.run(tests, "--tb=no")
    assert code in (0, 1), output
    assert "test_last" not in output
    assert sum(int(count) for count in re.findall(r"(\d+) (?:passed|failed)", output)) == 41, output


def test_without_a_thread_the_timers_of_pytest_timeout_are_used(project: Project) -> None:
    project.environ["PAUSEWATCH_THREAD_ID"] = ""
    code, output = project.run("def test_it(): time.sleep(60)\n", "--timeout=2")
    assert code == 1
    assert "no thread (PAUSEWATCH_THREAD_ID is not set), so the timers of pytest-timeout never pause" in output
    assert "Timeout (>2.0s) from pytest-timeout." in output


def test_a_missing_pytest_timeout_is_reported(project: Project) -> None:
    code, output = project.run("def test_it(): pass\n", "-p", "no:timeout")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "not installed or is disabled: install pytest-timeout 2.4" in output


def test_an_incompatible_pytest_timeout_is_reported_with_its_version(project: Project) -> None:
    (project.directory / "pytest_timeout.py").write_text("")
    code, output = project.run("def test_it(): pass\n", "-p", "no:timeout", "-p", "pytest_timeout")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "was tested with pytest-timeout 2.4, and cannot end tests as version" in output


def test_invalid_settings_are_reported(project: Project) -> None:
    project.environ["PAUSEWATCH_ADDRESS"] = "nonsense"
    code, output = project.run("def test_it(): pass\n")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "pausewatch.pytest: " in output
