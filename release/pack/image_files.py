"""The files of the container image: the program, the C library, certificates, and nothing else.

release/build oci and deploy/Dockerfile both use this list, so that both images hold the same files. The libraries come
from packages of Debian, whose names and versions are in var/lib/dpkg/status.d, where scanners of images look.
"""

import re
import tempfile
from pathlib import Path

from .archive import Files
from .project import Target, output, run, this_machine

# The user in distroless images, and in deploy/kubernetes.
USER = 65532
STATE = "var/lib/pausewatch"
OWNERS = {STATE: USER}

PACKAGES = ("base-files", "ca-certificates", "libc6", "libgcc-s1")
LIBRARIES = re.compile(r"(libc|libm|libdl|libpthread|librt|libresolv|libnss_dns|libnss_files)\.so\.\d+|libgcc_s\.so\.1")


def system(target: Target) -> Files:
    """All files but the program."""
    with tempfile.TemporaryDirectory() as work:
        packages = download(target, Path(work))
        files: Files = {}
        for package in packages:
            name = output("dpkg-deb", "--field", package, "Package").strip()
            root = Path(work) / name
            run("dpkg-deb", "--extract", package, root)
            files[f"var/lib/dpkg/status.d/{name}"] = (output("dpkg-deb", "--field", package).encode(), 0o644)
            # Binary packages of one source share one file, in the package that they depend on.
            terms = root / f"usr/share/doc/{name}/copyright"
            if terms.exists():
                files[f"usr/share/doc/{name}/copyright"] = (terms.read_bytes(), 0o644)
        architecture = target.triple.split("-")[0]
        for path in sorted([*(Path(work) / "libc6").rglob("*"), *(Path(work) / "libgcc-s1").rglob("*")]):
            if path.parent.name == f"{architecture}-linux-gnu" and LIBRARIES.fullmatch(path.name):
                files[f"lib/{path.parent.name}/{path.name}"] = (path.read_bytes(), 0o755)
            elif path.name == Path(target.loader).name and not path.is_symlink():
                files[target.loader] = (path.read_bytes(), 0o755)
        authorities = sorted((Path(work) / "ca-certificates/usr/share/ca-certificates/mozilla").glob("*.crt"))
        bundle = b"".join(path.read_bytes().rstrip() + b"\n" for path in authorities)
        files["etc/ssl/certs/ca-certificates.crt"] = (bundle, 0o644)
        files["etc/os-release"] = ((Path(work) / "base-files/usr/lib/os-release").read_bytes(), 0o644)
    files["etc/nsswitch.conf"] = (b"hosts: files dns\n", 0o644)
    files["etc/passwd"] = (f"root:x:0:0::/:/none\npausewatch:x:{USER}:{USER}::/:/none\n".encode(), 0o644)
    files["etc/group"] = (f"root:x:0:\npausewatch:x:{USER}:\n".encode(), 0o644)
    files["tmp"] = (None, 0o1777)
    files[STATE] = (None, 0o700)
    return files


def download(target: Target, work: Path) -> list[Path]:
    """The packages, from apt; for another architecture with separate lists, so that those of this machine do not change."""
    directory = work / "packages"
    directory.mkdir()
    options = ["-qq", "-o", "APT::Sandbox::User=root"]
    if target.triple != this_machine():
        for name in ("lists/partial", "cache/archives/partial"):
            (work / "apt" / name).mkdir(parents=True)
        (work / "apt/status").touch()
        options += [
            "-o", f"APT::Architecture={target.debian}", "-o", f"APT::Architectures={target.debian}",
            "-o", f"Dir::State::lists={work}/apt/lists", "-o", f"Dir::State::status={work}/apt/status",
            "-o", f"Dir::Cache={work}/apt/cache",
        ]  # fmt: skip
        run("apt-get", *options, "update")
    run("apt-get", *options, "download", *PACKAGES, cwd=directory)
    for package in directory.glob("libgcc-s1_*.deb"):
        base = re.search(r"gcc-\d+-base", output("dpkg-deb", "--field", package, "Depends"))
        run("apt-get", *options, "download", base[0] if base else "gcc-base", cwd=directory)
    return sorted(directory.glob("*.deb"))
