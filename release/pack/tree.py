"""The files around the program: manual pages, completions, licences, and the bill of materials."""

import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import licences, linked, sbom
from .archive import Files, from_directory, gzipped
from .project import ROOT, Project, run

LICENCES = "THIRD-PARTY-LICENCES.txt"
SBOM = "pausewatch.cdx.json"


@dataclass(frozen=True)
class Tree:
    """The content of the packages of one target."""

    project: Project
    program: Path
    # The same program, or one for this machine that prints the same pages.
    runs_here: Path

    @cached_property
    def _crates(self) -> list[linked.Crate]:
        return linked.crates(self.project)

    @cached_property
    def licences(self) -> bytes:
        return licences.document(self.project, self._crates)

    @cached_property
    def sbom(self) -> bytes:
        return sbom.document(self.project, self._crates)

    @cached_property
    def share(self) -> Files:
        """Manual pages and completions, below `share/`."""
        with tempfile.TemporaryDirectory() as pages:
            run(self.runs_here, "man", pages)
            files = from_directory(Path(pages), "share/man/man1/")
        files = {f"{name}.gz": (gzipped(content), mode) for name, (content, mode) in files.items() if content}
        for shell, path in {
            "bash": "share/bash-completion/completions/pausewatch",
            "fish": "share/fish/vendor_completions.d/pausewatch.fish",
            "zsh": "share/zsh/site-functions/_pausewatch",
        }.items():
            printed = subprocess.run([self.runs_here, "completions", shell], stdout=subprocess.PIPE, check=True)
            files[path] = (printed.stdout, 0o644)
        return files


def text(path: str) -> tuple[bytes, int]:
    """A file of the repository, to be read by all."""
    return ((ROOT / path).read_bytes(), 0o644)
