"""The tarball: the program and all that belongs to it, in one directory, with the bill of materials beside it."""

from pathlib import Path

from .archive import gzipped, tar, with_parents
from .tree import LICENCES, SBOM, Tree, text


def build(tree: Tree) -> list[Path]:
    project = tree.project
    name = f"pausewatch-{project.version}-{project.target.triple}"
    files = {
        "bin/pausewatch": (tree.program.read_bytes(), 0o755),
        "lib/systemd/system/pausewatch.service": text("deploy/systemd/pausewatch.service"),
        "share/doc/pausewatch/config.toml": text("deploy/config.toml"),
        "CHANGELOG.md": text("CHANGELOG.md"),
        "LICENSE": text("LICENSE"),
        LICENCES: (tree.licences, 0o644),
        SBOM: (tree.sbom, 0o644),
        "README.md": text("README.md"),
        **tree.share,
    }
    whole = with_parents({f"{name}/{path}": file for path, file in files.items()})
    written = {f"{name}.tar.gz": gzipped(tar(whole, project.epoch)), f"{name}.cdx.json": tree.sbom}
    for file, content in written.items():
        (project.dist / file).write_bytes(content)
    return [project.dist / file for file in written]
