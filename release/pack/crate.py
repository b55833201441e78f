"""The crate, as cargo makes it."""

import shutil
from pathlib import Path

from .project import ROOT, output, run
from .tree import Tree


def build(tree: Tree) -> list[Path]:
    project = tree.project
    dirty = output("git", "status", "--porcelain") if (ROOT / ".git").exists() else ""
    # cargo records the commit, and therefore refuses uncommitted changes.
    allow = ["--allow-dirty"] if dirty else []
    run("cargo", "package", "--locked", "--no-verify", "--quiet", "--package", "pausewatch", *allow)
    name = f"pausewatch-{project.version}.crate"
    shutil.copyfile(project.cargo_target / "package" / name, project.dist / name)
    return [project.dist / name]
