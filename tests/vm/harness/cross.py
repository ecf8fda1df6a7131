# SPDX-License-Identifier: Apache-2.0
"""Compiler and programs for the processor that the tests' kernel is for."""

from __future__ import annotations

import os
import subprocess

from tests.vm.harness.kernels import ARM64, VARIABLE, release_folder
from tests.vm.harness.store import ROOT

TRIPLET = "aarch64-linux-gnu"
IS_FOREIGN = os.environ.get(VARIABLE) == ARM64
# Folder of what `make -C kmod` builds for the guest.
BUILD = ROOT / "kmod" / "build" / (TRIPLET if IS_FOREIGN else "")
# Debian's cross compiler lies in the release's root: installed here, it would take gcc-multilib's place.
IN_ROOT = release_folder(ARM64) / "in-root"
# How programs of that processor are linked, and what runs them here.
LINKED = ("-static",) if IS_FOREIGN else ()
RUNNER = ("qemu-aarch64-static",) if IS_FOREIGN else ()


def tool(name: str) -> list[str]:
    """Return the command of a compiler's program, such as gcc or objcopy."""
    return [str(IN_ROOT), f"{TRIPLET}-{name}"] if IS_FOREIGN else [name]


def build_programs() -> None:
    """Build all of kmod for the guest's processor, by the compiler in the root."""
    names = [f"CROSS_COMPILE={TRIPLET}-", "WERROR=1", "fuse_cflags=-I/usr/include/fuse3", "fuse_libs=-lfuse3"]
    command = [str(IN_ROOT), "make", "--no-print-directory", "-j2", "-C", str(ROOT / "kmod"), *names]
    subprocess.run(command, check=True)
