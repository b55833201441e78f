"""Adds the program to the wheel of the client.

- A clone builds the client alone: `pip install ./clients/python`.
- `release/build wheel` names a built program (PAUSEWATCH_WHEEL_...).
- The sdist has the sources of the program in program/ and builds it with cargo; PAUSEWATCH_CLIENT_ONLY=1 leaves it out.
"""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    """Called by hatchling before it packs the wheel or the sdist."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Puts the program, its licences and its bill of materials where they belong."""
        crate = os.environ.get("PAUSEWATCH_SDIST_CRATE")
        if self.target_name == "sdist":
            if crate:
                build_data["force_include"][crate] = "program"
            return
        if version == "editable":
            return
        built = os.environ.get("PAUSEWATCH_WHEEL_PROGRAM")
        if built:
            build_data["tag"] = os.environ["PAUSEWATCH_WHEEL_TAG"]
            licences = os.environ["PAUSEWATCH_WHEEL_LICENCES"]
            build_data["extra_metadata"][licences] = Path(licences).name
            build_data["sbom_files"].append(os.environ["PAUSEWATCH_WHEEL_SBOM"])
        elif (Path(self.root) / "program/Cargo.toml").exists() and os.environ.get("PAUSEWATCH_CLIENT_ONLY") != "1":
            built = self.build_program()
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        if built:
            build_data["pure_python"] = False
            build_data["shared_scripts"][built] = "pausewatch"

    def build_program(self) -> str:
        """Builds the sources of the sdist, and returns where the program is."""
        cargo = shutil.which("cargo")
        if cargo is None:
            message = (
                "there is no built wheel of pausewatch for this platform, and no cargo to build the program with. Install Rust, "
                "or set PAUSEWATCH_CLIENT_ONLY=1 to install the Python client without the program"
            )
            raise RuntimeError(message)
        target = Path(self.root) / "program-target"
        manifest = Path(self.root) / "program/Cargo.toml"
        command = [cargo, "build", "--locked", "--release", "--bin", "pausewatch"]
        subprocess.run([*command, "--manifest-path", manifest, "--target-dir", target], check=True)  # noqa: S603
        return str(target / "release/pausewatch")
