"""The npm packages: `pausewatch` (the TypeScript client and a launcher), and one with the program for each platform.

npm installs the package of the user's platform alone, because the others name another `os`, `cpu` or `libc`.
"""

import json
import shutil
from pathlib import Path

from .archive import Files, from_directory, gzipped, tar
from .project import ROOT, TARGETS, Project, run
from .tree import LICENCES, SBOM, Tree, text

CLIENT = ROOT / "clients/typescript"


def build(tree: Tree) -> list[Path]:
    project = tree.project
    packages = {
        f"pausewatch-{project.version}.tgz": main_package(project),
        f"pausewatch-{project.target.npm}-{project.version}.tgz": platform_package(tree),
    }
    for name, files in packages.items():
        inside = {f"package/{path}": file for path, file in files.items()}
        (project.dist / name).write_bytes(gzipped(tar(inside, project.epoch)))
    return [project.dist / name for name in packages]


def manifest(fields: dict) -> tuple[bytes, int]:
    return ((json.dumps(fields, indent=2) + "\n").encode(), 0o644)


def main_package(project: Project) -> Files:
    """The client, compiled, with the command of the program."""
    fields = json.loads((CLIENT / "package.json").read_text())
    for only_here in ("devDependencies", "scripts"):
        fields.pop(only_here)
    fields["bin"] = {"pausewatch": "bin/pausewatch.js"}
    platforms = [target.npm for target in TARGETS.values()]
    # Exactly the same version: client and program belong to one release.
    fields["optionalDependencies"] = {f"@pausewatch/{platform}": project.version for platform in platforms}
    fields["files"] = [*fields["files"], "bin"]
    launcher = (ROOT / "release/npm/pausewatch.js").read_text().replace("= PLATFORMS", f"= {json.dumps(platforms)}")
    return {
        "package.json": manifest(fields),
        "bin/pausewatch.js": (launcher.encode(), 0o755),
        "README.md": text("clients/typescript/README.md"),
        "LICENSE": text("clients/typescript/LICENSE"),
        **from_directory(CLIENT / "src", "src/"),
        **from_directory(compiled(project), "dist/"),
    }


def compiled(project: Project) -> Path:
    """The client in JavaScript, made by the pinned compiler beside a copy of the sources."""
    place = project.work("npm")
    for directory in ("src", "dist"):
        shutil.rmtree(place / directory, ignore_errors=True)
    shutil.copytree(CLIENT / "src", place / "src")
    for name in ("package.json", "tsconfig.json", "tsconfig.build.json"):
        shutil.copyfile(CLIENT / name, place / name)
    lock = (CLIENT / "package-lock.json").read_bytes()
    installed = place / "node_modules/.installed"
    if not installed.exists() or installed.read_bytes() != lock:
        (place / "package-lock.json").write_bytes(lock)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", cwd=place)
        installed.write_bytes(lock)
    run("npx", "--no-install", "tsc", "-p", "tsconfig.build.json", cwd=place)
    return place / "dist"


def platform_package(tree: Tree) -> Files:
    """The program for one platform."""
    system, cpu = tree.project.target.npm.split("-")
    name = f"@pausewatch/{tree.project.target.npm}"
    fields = {
        "name": name,
        "version": tree.project.version,
        "description": f"The program of pausewatch for {system} on {cpu}; install the package pausewatch instead",
        "license": "Apache-2.0",
        "os": [system],
        "cpu": [cpu],
        "libc": ["glibc"],
        "preferUnplugged": True,
    }
    return {
        "package.json": manifest(fields),
        "bin/pausewatch": (tree.program.read_bytes(), 0o755),
        "README.md": (
            f"# {name}\n\nThe program of the package `pausewatch`, which installs it where it is needed.\n".encode(),
            0o644,
        ),
        "LICENSE": text("LICENSE"),
        LICENCES: (tree.licences, 0o644),
        SBOM: (tree.sbom, 0o644),
    }
