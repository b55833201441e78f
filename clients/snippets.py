"""The code blocks of the clients' pages, for the scripts clients/LANGUAGE/test-readme.

Each of those packs its library, installs the package into an empty project outside of this repository, puts the code of the
library's README.md (for Rust that of the repository) and of clients/README.md there, and runs all of it against a coordinator. What a block uses and
does not show (`askThePerson`) is in a prelude beside the script. A block that is not run is an error, not an omission.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Block:
    """One block of code. `place`: the page and the line of its first line."""

    place: str
    text: str

    @property
    def name(self) -> str:
        """As a name of a function or a file."""
        return "at_" + re.sub(r"\W+", "_", self.place)


def blocks(language: str, *pages: str) -> list[Block]:
    """All blocks of this language in the pages; each page must have one."""
    found = []
    for page in pages:
        lines = (ROOT / page).read_text("utf-8").splitlines()
        start = None
        for number, line in enumerate(lines, 1):
            if start is not None and line == "```":
                found.append(Block(f"{page}:{start}", "\n".join(lines[start - 1 : number - 1]) + "\n"))
                start = None
            elif start is None and re.fullmatch(rf"```{language}( .*)?", line):
                start = number + 1
    if len({block.place.split(":")[0] for block in found}) < len(pages):
        sys.exit(f"no block of {language} was found in one of the pages")
    return found


@contextlib.contextmanager
def coordinator() -> Iterator[str]:
    """A coordinator of its own; its address, which is in the environment too."""
    program = os.environ.get("PAUSEWATCH_PROGRAM") or sys.exit("set PAUSEWATCH_PROGRAM to the path of a built pausewatch")
    command = [program, "serve", "--listen", "127.0.0.1:0", "--store", "memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[1]
            for name in [name for name in os.environ if name.startswith(("PAUSEWATCH_", "CODEX_", "CLAUDE_"))]:
                del os.environ[name]
            os.environ |= {"PAUSEWATCH_ADDRESS": address, "PAUSEWATCH_THREAD_ID": "thread-1", "PAUSEWATCH_PROGRAM": program}
            yield address
        finally:
            server.kill()


@contextlib.contextmanager
def empty_project() -> Iterator[Path]:
    """A folder that is no part of this repository, nor below a project."""
    with tempfile.TemporaryDirectory(prefix="pausewatch-readme-") as folder:
        yield Path(folder)


def run(*command: str | Path, cwd: Path, **options: object) -> None:
    """Runs a command, for at most five minutes; ends the script if it fails."""
    ended = subprocess.run(list(map(str, command)), cwd=cwd, timeout=300, check=False, **options)  # type: ignore[call-overload]
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: ended with {ended.returncode}")
