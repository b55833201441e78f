"""A project's test that runs a command, which asks a person. Started by test_frameworks.py, with a limit of pytest-timeout."""

from __future__ import annotations

import json
import os
import subprocess


def test_command() -> None:
    subprocess.run(json.loads(os.environ["COMMAND"]), check=True)
