"""Archives with the same bytes for the same content: sorted names, one owner, one time."""

import gzip
import io
import tarfile
from pathlib import Path, PurePosixPath

# A path, its content (None: a directory), and its permissions.
Files = dict[str, tuple[bytes | None, int]]


def from_directory(directory: Path, prefix: str = "") -> Files:
    """The files of a directory; files that the owner can execute are executable for everybody."""
    files: Files = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            files[f"{prefix}{path.relative_to(directory).as_posix()}"] = (path.read_bytes(), mode)
    return files


def to_directory(files: Files, directory: Path) -> None:
    """Writes the files below a directory."""
    for name, (content, mode) in sorted(files.items()):
        path = directory / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        path.chmod(mode)


def with_parents(files: Files) -> Files:
    """The same files with each directory above them."""
    whole: Files = {}
    for name in files:
        for parent in PurePosixPath(name).parents:
            if str(parent) != ".":
                whole[str(parent)] = (None, 0o755)
    return whole | files


def tar(files: Files, epoch: int, owners: dict[str, int] | None = None) -> bytes:
    """A tar archive; `owners` has the user id of those paths that are not root's."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode = epoch, mode
            entry.uid = entry.gid = (owners or {}).get(name, 0)
            if content is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def gzipped(content: bytes) -> bytes:
    """The compressed content, without a name or a time."""
    return gzip.compress(content, compresslevel=9, mtime=0)
