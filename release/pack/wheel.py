"""The wheel: the program and the Python client under one name; and the sdist, which has the sources of both.

clients/python/hatch_build.py adds the program to what hatchling makes of the client.
"""

import os
import shutil
import tarfile
from pathlib import Path

from . import crate
from .project import ROOT, Project, run
from .tree import LICENCES, SBOM, Tree


def build(tree: Tree) -> list[Path]:
    project = tree.project
    extra = project.work("wheel")
    (extra / LICENCES).write_bytes(tree.licences)
    (extra / SBOM).write_bytes(tree.sbom)
    wheel = hatchling(
        project,
        "wheel",
        PAUSEWATCH_WHEEL_PROGRAM=tree.program,
        PAUSEWATCH_WHEEL_TAG=f"py3-none-{project.target.wheel}",
        PAUSEWATCH_WHEEL_LICENCES=extra / LICENCES,
        PAUSEWATCH_WHEEL_SBOM=extra / SBOM,
    )
    [archive] = crate.build(tree)
    sources = project.work("sdist")
    shutil.rmtree(sources)
    with tarfile.open(archive) as packed:
        packed.extractall(sources, filter="data")
    sdist = hatchling(project, "sdist", PAUSEWATCH_SDIST_CRATE=sources / f"pausewatch-{project.version}")
    return [wheel, sdist]


def hatchling(project: Project, kind: str, **settings: Path | str) -> Path:
    """Builds one archive of the Python client, and returns its path in the directory of packages."""
    made = project.work(f"hatchling-{kind}")
    shutil.rmtree(made)
    environment = os.environ | {name: str(value) for name, value in settings.items()}
    environment["SOURCE_DATE_EPOCH"] = str(project.epoch)
    run(
        project.tools / "python", "-m", "hatchling", "build", "--target", kind, "--directory", made,
        cwd=ROOT / "clients/python",
        env=environment,
    )  # fmt: skip
    [archive] = made.iterdir()
    return Path(shutil.move(archive, project.dist / archive.name))
