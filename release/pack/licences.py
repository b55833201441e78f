"""The licences of everything that is linked into the program, as one text: each once, with the crates that it covers."""

import html
import re
from pathlib import Path

from .linked import Crate
from .project import ROOT, Project, ReleaseError, output

NAMES = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)

# Crates that name MIT, but contain no text of it.
MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

UNWINDER = """\
Apache-2.0, which is the text of LICENSE, with this exception:

As an exception, if, as a result of your compiling your source code, portions of this Software are embedded into an Object
form of such source code, you may redistribute such embedded portions in such Object form without complying with the
conditions of Sections 4(a), 4(b) and 4(d) of the License.

In addition, if you combine or link compiled forms of this Software with software that is licensed under the GPLv2
("Combined Software") and if a court of competent jurisdiction determines that the patent provision (Section 3), the
indemnity provision (Section 9) or other Section of the License conflicts with the conditions of the GPLv2, you may
retroactively and prospectively choose to deem waived or otherwise exclude such Section(s) of the License, but only in
their entirety and only with respect to the Combined Software.
"""


def document(project: Project, crates: list[Crate]) -> bytes:
    """The texts, each below the names of its crates."""
    covered: dict[str, list[str]] = {}
    for crate in crates:
        for text in texts(crate):
            covered.setdefault(text, []).append(f"{crate.name} {crate.version} ({crate.licence})")
    for name, text in runtime(project).items():
        covered.setdefault(text, []).append(name)
    parts = [
        f"pausewatch {project.version} is licensed under Apache-2.0 (LICENSE). The program for {project.target.triple}\n"
        "contains the following software, under the licences below each list.\n"
    ]
    for text, names in sorted(covered.items(), key=lambda pair: (pair[1], pair[0])):
        parts.append("=" * 80 + "\n" + "\n".join(names) + "\n" + "-" * 80 + "\n" + text)
    return "\n".join(parts).encode()


def texts(crate: Crate) -> list[str]:
    """The files with licences in a crate (also in the C code that it brings), or the standard text that it names."""
    found = sorted(
        path
        for path in crate.source.rglob("*")
        if path.is_file() and NAMES.match(path.name) and path.suffix in ("", ".md", ".txt", ".rst")
    )
    if found:
        return list(dict.fromkeys(clean(path) for path in found))
    holders = ", ".join(crate.authors) or f"the authors of {crate.name}"
    if "Apache-2.0" in crate.licence:
        return [clean(ROOT / "LICENSE")]
    if crate.licence == "MIT":
        return [f"Copyright (c) {holders}\n\n{MIT}"]
    raise ReleaseError(f"{crate.name} {crate.version} ({crate.licence}) ships no licence text: teach pack/licences.py")


def clean(path: Path) -> str:
    """The text without invisible differences, so that the same licence is listed once."""
    lines = path.read_bytes().decode("utf-8", "replace").replace("\f", "").splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def runtime(project: Project) -> dict[str, str]:
    """The licences of what the compilers add: the standard library of Rust, and the unwinder of LLVM that zig links."""
    sysroot = Path(output("rustc", "--print", "sysroot").strip())
    version = output("rustc", "--version").split()[1]
    notice = sysroot / "share/doc/rust/COPYRIGHT-library.html"
    if not notice.exists():
        raise ReleaseError(f"{notice} is missing: build releases with Rust as rustup installs it")
    return {
        f"the standard library of Rust {version}": without_tags(clean(notice)),
        "libunwind of the LLVM project (Apache-2.0 WITH LLVM-exception)": UNWINDER,
    }


def without_tags(page: str) -> str:
    """The text of a page in HTML."""
    text = html.unescape(re.sub(r"<(style|script).*?</\1>|<[^>]*>", "", page, flags=re.DOTALL))
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", text).strip() + "\n"
