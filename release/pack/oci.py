"""The container image as an OCI layout in a tar, made without a daemon: `docker load`, `podman load` or `skopeo copy` take it.

Its settings are those of deploy/Dockerfile, read from there; its files are those of image_files.py.
"""

import hashlib
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

from . import image_files
from .archive import Files, gzipped, tar, with_parents
from .project import ROOT, ReleaseError
from .tree import LICENCES, SBOM, Tree, text

PROGRAM = "usr/bin/pausewatch"


def build(tree: Tree) -> list[Path]:
    project = tree.project
    created = datetime.fromtimestamp(project.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    layers = {
        "the C library and certificates, of Debian": image_files.system(project.target),
        "pausewatch": program_files(tree),
    }
    blobs: dict[str, bytes] = {}
    history, diffs, descriptors = [], [], []
    for name, files in layers.items():
        layer = tar(with_parents(files), project.epoch, image_files.OWNERS)
        diffs.append(digest(layer))
        descriptors.append(add(blobs, "application/vnd.oci.image.layer.v1.tar+gzip", gzipped(layer)))
        history.append({"created": created, "created_by": name})
    config = {
        "created": created,
        "architecture": project.target.oci,
        "os": "linux",
        "config": settings((ROOT / "deploy/Dockerfile").read_text()),
        "rootfs": {"type": "layers", "diff_ids": diffs},
        "history": history,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(blobs, "application/vnd.oci.image.config.v1+json", encoded(config)),
        "layers": descriptors,
    }
    entry = add(blobs, manifest["mediaType"], encoded(manifest))
    name = f"pausewatch:{project.version}"
    entry["annotations"] = {"org.opencontainers.image.ref.name": project.version, "io.containerd.image.name": name}
    entry["platform"] = {"architecture": project.target.oci, "os": "linux"}
    layout: Files = {
        "oci-layout": (b'{"imageLayoutVersion":"1.0.0"}', 0o644),
        "index.json": (encoded({"schemaVersion": 2, "manifests": [entry]}), 0o644),
        **{f"blobs/sha256/{name}": (content, 0o644) for name, content in blobs.items()},
    }
    path = project.dist / f"pausewatch-{project.version}-linux-{project.target.oci}.oci.tar"
    path.write_bytes(tar(with_parents(layout), project.epoch))
    return [path]


def program_files(tree: Tree) -> Files:
    return {
        PROGRAM: (tree.program.read_bytes(), 0o755),
        "usr/share/doc/pausewatch/LICENSE": text("LICENSE"),
        f"usr/share/doc/pausewatch/{LICENCES}": (tree.licences, 0o644),
        f"usr/share/doc/pausewatch/{SBOM}": (tree.sbom, 0o644),
    }


def settings(dockerfile: str) -> dict:
    """The configuration of the image that the last stage of a Dockerfile sets."""
    instructions: dict[str, list[str]] = {}
    for line in dockerfile.replace("\\\n", " ").rsplit("\nFROM ", 1)[1].splitlines()[1:]:
        name, _, value = line.partition(" ")
        if name and not name.startswith("#"):
            instructions.setdefault(name, []).append(value.strip())
    known = {"COPY", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    if set(instructions) != known:
        raise ReleaseError(f"deploy/Dockerfile: pack/oci.py does not know {sorted(set(instructions) ^ known)}")
    [user], [volume], [port], [signal] = (instructions[name] for name in ("USER", "VOLUME", "EXPOSE", "STOPSIGNAL"))
    return {
        "User": user,
        "ExposedPorts": {f"{port}/tcp": {}},
        "Env": shlex.split(" ".join(instructions["ENV"])),
        "Entrypoint": json.loads(instructions["ENTRYPOINT"][0]),
        "Cmd": json.loads(instructions["CMD"][0]),
        "Volumes": {volume: {}},
        "StopSignal": signal,
        # This is not part of OCI, but Docker reads it.
        "Healthcheck": healthcheck(instructions["HEALTHCHECK"][0]),
    }


def healthcheck(instruction: str) -> dict:
    options, command = instruction.split(" CMD ", 1)
    found = dict(re.findall(r"--([\w-]+)=(\d+)s?", options))
    nanoseconds = {name: int(value) * 10**9 for name, value in found.items()}
    return {
        "Test": ["CMD", *json.loads(command)],
        "Interval": nanoseconds["interval"],
        "Timeout": nanoseconds["timeout"],
        "StartPeriod": nanoseconds["start-period"],
        "Retries": int(found["retries"]),
    }


def add(blobs: dict[str, bytes], media_type: str, content: bytes) -> dict:
    """Stores a blob, and returns its descriptor."""
    blobs[digest(content).removeprefix("sha256:")] = content
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def encoded(value: dict) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
