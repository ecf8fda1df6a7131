# SPDX-License-Identifier: Apache-2.0
"""Build hook of the distribution: compile the C parts and put them into the wheel."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LAUNCHER = Path("runtime_config/launcher/cgpu-container-runtime")
BINARIES = (
    Path("kmod/build/libcgpud.so"),
    Path("kmod/build/cgpu-sim"),
    Path("kmod/build/cgpu-probe"),
    Path("kmod/build/cgpu-probe32"),
    Path("kmod/build/cgpu-recorder"),
    Path("kmod/build/cgpu-check-driver"),
    Path("kmod/build/libcgpu-replay.so"),
    LAUNCHER,
    LAUNCHER.with_name(LAUNCHER.name + ".low-level"),  # a link; a wheel has a copy in its place
)


class CompileHook(BuildHookInterface[Any]):
    """Runs make in kmod/ and ships what it built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, then name the binaries and the platform of the wheel.

        An editable install compiles too, and finds the binaries where make leaves them.
        Raises subprocess.CalledProcessError when a compiler or a library is missing.
        """
        if self.target_name != "wheel":
            return
        package = Path(self.root) / "cgpu"
        subprocess.run(["/usr/bin/make", "--no-print-directory", "-C", str(package / "kmod")], check=True)
        if version == "editable":
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        for binary in BINARIES:
            build_data["force_include"][str(package / binary)] = f"cgpu/{binary}"
