"""The Debian package, laid out here and built by dpkg-deb.

cargo-deb would do the same from settings in Cargo.toml, but takes minutes to build, and its archives would need the same
care to be reproducible; what is in the package is a few files.
"""

import hashlib
import os
import shutil
from pathlib import Path

from .archive import Files, gzipped, to_directory, with_parents
from .program import GLIBC
from .project import ROOT, run
from .tree import LICENCES, SBOM, Tree, text

DOC = "usr/share/doc/pausewatch"
CONFIG = "etc/pausewatch/config.toml"


def build(tree: Tree) -> list[Path]:
    project = tree.project
    files: Files = {
        "usr/bin/pausewatch": (tree.program.read_bytes(), 0o755),
        "usr/lib/systemd/system/pausewatch.service": text("deploy/systemd/pausewatch.service"),
        CONFIG: text("deploy/config.toml"),
        f"{DOC}/changelog.gz": (gzipped((ROOT / "CHANGELOG.md").read_bytes()), 0o644),
        f"{DOC}/copyright": (copyright_file(), 0o644),
        f"{DOC}/{LICENCES}.gz": (gzipped(tree.licences), 0o644),
        f"{DOC}/{SBOM}.gz": (gzipped(tree.sbom), 0o644),
        **{f"usr/{path}": file for path, file in tree.share.items()},
    }
    files = {
        path.replace("usr/share/zsh/site-functions", "usr/share/zsh/vendor-completions"): file for path, file in files.items()
    }
    installed = sum(len(content or b"") for content, _ in files.values()) // 1024
    sums = "".join(
        f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {path}\n"
        for path, (content, _) in sorted(files.items())
        if content is not None and path != CONFIG
    )
    control: Files = {
        "DEBIAN/control": (control_file(tree, installed).encode(), 0o644),
        "DEBIAN/conffiles": (f"/{CONFIG}\n".encode(), 0o644),
        "DEBIAN/md5sums": (sums.encode(), 0o644),
    }
    for script in ("postinst", "prerm", "postrm"):
        control[f"DEBIAN/{script}"] = ((ROOT / "release/debian" / script).read_bytes(), 0o755)
    root = project.work("deb")
    shutil.rmtree(root)
    to_directory(with_parents(files | control), root)
    root.chmod(0o755)
    package = project.dist / f"pausewatch_{project.version}_{project.target.debian}.deb"
    run(
        "dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, package,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(project.epoch)},
    )  # fmt: skip
    return [package]


def control_file(tree: Tree, installed: int) -> str:
    project = tree.project
    return f"""\
Package: pausewatch
Version: {project.version}
Architecture: {project.target.debian}
Maintainer: the authors of pausewatch <pausewatch@localhost>
Installed-Size: {installed}
Depends: libc6 (>= {GLIBC[0]}.{GLIBC[1]})
Recommends: ca-certificates
Section: net
Priority: optional
Description: timeouts that stop while a person is being asked
 AI agents run commands with a timeout, and some commands must ask a person
 half-way. pausewatch counts the open questions of each thread, and freezes the
 timeouts of its commands meanwhile.
 .
 This package has the coordinator, with a systemd unit that is not enabled, and
 the commands run, hold and exec-server.
"""


def copyright_file() -> bytes:
    return b"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: pausewatch
Comment: The licences of what is linked into the program are in
 THIRD-PARTY-LICENCES.txt.gz beside this file.

Files: *
Copyright: the authors of pausewatch
License: Apache-2.0
 On Debian systems, the text of this licence is in
 /usr/share/common-licenses/Apache-2.0.
"""
