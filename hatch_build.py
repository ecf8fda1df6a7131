# SPDX-License-Identifier: Apache-2.0
"""Build hook of the distribution: compile the C parts and put them into the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LAUNCHER = Path("runtime_config/launcher/cgpu-container-runtime")
BINARIES = (
    Path("kmod/build/libcgpud.so"),
    Path("kmod/build/cgpu-sim"),
    Path("kmod/build/cgpu-probe"),
    Path("kmod/build/cgpu-check-driver"),
    Path("hook/cgpu-hook"),
    LAUNCHER,
    LAUNCHER.with_name(LAUNCHER.name + ".low-level"),  # a link; a wheel has a copy in its place
)
PROBE_32 = Path("kmod/build/cgpu-probe32")
WITNESS = Path("kmod/build/cgpu-witness")  # where clang and its libraries are
TOOLS = ("make", "gcc", "pkg-config")
NEEDED = (
    "on Debian: apt-get install make gcc gcc-multilib libfuse3-dev pkg-config; on Fedora and RHEL: "
    "dnf install make gcc glibc-static fuse3-devel pkgconf-pkg-config, and set CGPU_WITHOUT_32_BIT=1"
)


class CompileHook(BuildHookInterface[Any]):
    """Runs make in kmod/ and ships what it built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, then name the binaries and the platform of the wheel.

        An editable install compiles too, and finds the binaries where make leaves them.
        Where a compiler or a library is missing it ends with one line: a traceback would hide it.
        """
        if self.target_name != "wheel":
            return
        package = Path(self.root) / "cgpu"
        missing = [name for name in TOOLS if shutil.which(name) is None]
        if missing:
            sys.exit(f"opencgpu: to build its C parts {', '.join(missing)}: not there; {NEEDED}")
        command = [shutil.which("make") or "make", "--no-print-directory", "-C", str(package / "kmod")]
        if subprocess.run(command, check=False).returncode:
            sys.exit(f"opencgpu: its C parts cannot be built, see above; {NEEDED}")
        if version == "editable":
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        # As in kmod/Makefile.
        probe_32 = () if os.environ.get("CGPU_WITHOUT_32_BIT") == "1" else (PROBE_32,)
        witness = (WITNESS,) if (package / WITNESS).exists() else ()
        for binary in (*BINARIES, *probe_32, *witness):
            build_data["force_include"][str(package / binary)] = f"cgpu/{binary}"
