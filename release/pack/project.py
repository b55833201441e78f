"""A release: the version, the time of its commit, the target, and the directories."""

import json
import os
import platform
import subprocess
import sys
import venv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ReleaseError(Exception):
    """A problem whose message says what to do."""


@dataclass(frozen=True)
class Target:
    """The names of one platform in each kind of package."""

    triple: str
    wheel: str  # platform tag
    npm: str  # os-cpu
    debian: str
    oci: str
    elf_machine: int
    loader: str  # where the kernel finds the dynamic loader


TARGETS = {
    target.triple: target
    for target in (
        Target(
            "x86_64-unknown-linux-gnu",
            "manylinux_2_17_x86_64.manylinux2014_x86_64",
            "linux-x64",
            "amd64",
            "amd64",
            62,
            "lib64/ld-linux-x86-64.so.2",
        ),
        Target(
            "aarch64-unknown-linux-gnu",
            "manylinux_2_17_aarch64.manylinux2014_aarch64",
            "linux-arm64",
            "arm64",
            "arm64",
            183,
            "lib/ld-linux-aarch64.so.1",
        ),
    )
}


def this_machine() -> str:
    """The target that the programs of this machine are built for."""
    return f"{platform.machine()}-unknown-linux-gnu"


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Runs a command whose output is shown; it must succeed."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, stdout=sys.stderr, check=False)
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is missing: install it (release/README.md lists what is needed)") from error
    if done.returncode != 0:
        raise ReleaseError(f"failed with {done.returncode}: {' '.join(map(str, command))}")


def output(*command: str | Path, cwd: Path = ROOT) -> str:
    """The standard output of a command; it must succeed."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is missing: install it (release/README.md lists what is needed)") from error
    if done.returncode != 0:
        raise ReleaseError(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


@dataclass(frozen=True)
class Project:
    """One release for one target."""

    target: Target

    @cached_property
    def metadata(self) -> dict:
        """The answer of `cargo metadata` about this package alone."""
        return json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", "--no-deps"))

    @property
    def package(self) -> dict:
        return next(package for package in self.metadata["packages"] if package["name"] == "pausewatch")

    @property
    def version(self) -> str:
        return self.package["version"]

    @cached_property
    def epoch(self) -> int:
        """The time in all packages: that of the commit, so that two builds of a commit give the same bytes."""
        given = os.environ.get("SOURCE_DATE_EPOCH")
        if given:
            return int(given)
        try:
            return int(output("git", "log", "-1", "--format=%ct"))
        except ReleaseError as error:
            raise ReleaseError(f"{error}: outside a clone, set SOURCE_DATE_EPOCH to the time of the release") from error

    @property
    def cargo_target(self) -> Path:
        return Path(self.metadata["target_directory"])

    @property
    def dist(self) -> Path:
        """Where the packages are written."""
        return self.cargo_target / "dist"

    def work(self, name: str) -> Path:
        """A directory for intermediate files."""
        directory = self.cargo_target / "release-work" / self.target.triple / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    @cached_property
    def tools(self) -> Path:
        """The programs of release/requirements.txt, in a virtual environment of their own."""
        environment = self.cargo_target / "release-tools"
        wanted = (ROOT / "release/requirements.txt").read_text()
        installed = environment / "requirements.txt"
        if not installed.exists() or installed.read_text() != wanted:
            venv.create(environment, clear=True, with_pip=True)
            run(
                environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check",
                "--requirement", ROOT / "release/requirements.txt",
            )  # fmt: skip
            installed.write_text(wanted)
        return environment / "bin"
