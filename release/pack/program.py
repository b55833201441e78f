"""The program that all packages have: built once, for an old C library, without paths of this machine."""

import os
import re
import struct
from pathlib import Path

from .project import ROOT, TARGETS, Project, ReleaseError, Target, output, run, this_machine

# The C library of manylinux2014 (CentOS 7, 2014): every supported Linux with glibc has a later one.
GLIBC = (2, 17)
# A profile of Cargo.toml.
PROFILE = "packed"


def built(project: Project) -> Path:
    """Builds the program for the target, and returns its path."""
    target = project.target
    environment = os.environ | {
        "PATH": f"{project.tools}{os.pathsep}{os.environ['PATH']}",
        "CARGO_INCREMENTAL": "0",
        "SOURCE_DATE_EPOCH": str(project.epoch),
    }
    # Panic messages contain paths of source files, which must not depend on the directories of this machine. The last
    # match wins.
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    places = {str(home): "/cargo", str(ROOT): "/pausewatch", str(project.cargo_target): "/target"}
    environment["RUSTFLAGS"] = " ".join(f"--remap-path-prefix={place}={name}" for place, name in places.items())
    environment |= compiler(project)
    suffix = target.triple.replace("-", "_")
    environment[f"CFLAGS_{suffix}"] = " ".join(f"-ffile-prefix-map={place}={name}" for place, name in places.items())
    run(
        "cargo", "zigbuild", "--locked", "--profile", PROFILE, "--bin", "pausewatch",
        "--target", f"{target.triple}.{GLIBC[0]}.{GLIBC[1]}",
        env=environment,
    )  # fmt: skip
    program = project.cargo_target / target.triple / PROFILE / "pausewatch"
    check(program, project)
    return program


def compiler(project: Project) -> dict[str, str]:
    """The variables that choose a compiler with the target's standard library: none if the compiler of the PATH has it."""
    if os.environ.get("RUSTC"):
        return {}
    sysroot = Path(output("rustc", "--print", "sysroot").strip())
    if (sysroot / "lib/rustlib" / project.target.triple / "lib").is_dir():
        return {}
    foreign = project.cargo_target / "foreign-rust"
    run(ROOT / "release/foreign-rust", foreign)
    return {
        "RUSTC": str(foreign / "usr/bin/rustc"),
        "LD_LIBRARY_PATH": str(foreign / "usr/lib/x86_64-linux-gnu"),
    }


def native(project: Project, program: Path) -> Path:
    """A program that runs here, to print manual pages and completions: this one, or that of this machine."""
    if project.target.triple == this_machine():
        return program
    return built(Project(target_of_this_machine()))


def target_of_this_machine() -> Target:
    """The target whose programs run here."""
    try:
        return TARGETS[this_machine()]
    except KeyError:
        raise ReleaseError(f"{this_machine()} has no packages: --target names one of {', '.join(TARGETS)}") from None


def check(program: Path, project: Project) -> None:
    """Refuses a program for another machine, one that needs a newer C library, and one that names paths of this machine."""
    try:
        content = program.read_bytes()
    except OSError as error:
        raise ReleaseError(f"read the program: {error}") from error
    if content[:4] != b"\x7fELF" or struct.unpack_from("<H", content, 18)[0] != project.target.elf_machine:
        raise ReleaseError(f"{program} is not a program for {project.target.triple}")
    needed = max(glibc_versions(content), default=(0, 0))
    if needed > GLIBC:
        raise ReleaseError(f"{program} needs glibc {needed[0]}.{needed[1]}: build it with release/build")
    home = str(Path.home()).encode()
    if (len(home) > len("/root") and home in content) or str(ROOT).encode() in content:
        raise ReleaseError(f"{program} contains paths of this machine: build it with release/build")


def glibc_versions(content: bytes) -> set[tuple[int, int]]:
    """The versions of symbols of the C library that a program names."""
    return {(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)}
