"""The crates that are linked into the program, as cargo resolves them for one target."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .project import Project, ReleaseError, output


@dataclass(frozen=True)
class Crate:
    """One crate from a registry."""

    name: str
    version: str
    licence: str  # an SPDX expression
    authors: tuple[str, ...]
    source: Path  # its directory
    checksum: str  # SHA-256 of its archive
    repository: str


def crates(project: Project) -> list[Crate]:
    """All linked crates, sorted by name and version; without this one, and without those that run only in the build."""
    tree = output(
        "cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none",
        "--target", project.target.triple, "--format", "{p}",
    )  # fmt: skip
    linked = set()
    for line in tree.splitlines():
        name, version = line.split()[:2]
        linked.add((name, version.removeprefix("v")))
    linked.discard((project.package["name"], project.version))
    checksums = locked(Path(project.metadata["workspace_root"]) / "Cargo.lock")
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1"))
    found = []
    for package in metadata["packages"]:
        identity = package["name"], package["version"]
        if identity not in linked:
            continue
        if not package["license"]:
            raise ReleaseError(f"{identity[0]} {identity[1]} names no licence: replace it, or teach pack/linked.py")
        found.append(
            Crate(
                *identity,
                # Old crates write MIT/Apache-2.0.
                re.sub(r"\s*/\s*", " OR ", package["license"]),
                tuple(package["authors"]),
                Path(package["manifest_path"]).parent,
                checksums[identity],
                package["repository"] or "",
            )
        )
    if len(found) != len(linked):
        raise ReleaseError("cargo tree and cargo metadata disagree about what is linked")
    return sorted(found, key=lambda crate: (crate.name, crate.version))


def locked(lock: Path) -> dict[tuple[str, str], str]:
    """The checksum of each crate in Cargo.lock."""
    packages = tomllib.loads(lock.read_text())["package"]
    return {(package["name"], package["version"]): package.get("checksum", "") for package in packages}
