# SPDX-License-Identifier: Apache-2.0
"""The kernels that a machine can be booted with.

CGPU_VM_KERNEL names a Debian release, whose kernel debian_release.py unpacks, or is arm64, for this machine's
release on that processor, or names a directory with bzImage and build/, a kernel that has all it needs built
in. Without it the newest of Debian's kernels counts that is here with its headers. Kernels of a newer series,
which Debian offers beside its own, have tests of their own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import lzma
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tests.vm.harness.store import STORE, put

VARIABLE = "CGPU_VM_KERNEL"
ARM64 = "arm64"  # this machine's release for another processor
RELEASES = ("trixie", "testing", ARM64)  # of Debian, beside this machine's own
# 6.1.0-56-amd64 in Debian 12, 6.12.118+deb13-amd64 in Debian 13, 6.12.117+deb12-amd64 where it is backported.
DEBIAN = re.compile(r"((\d+)\.(\d+)\.(\d+)(?:-(\d+))?(?:\+deb(\d+)(?:\.(\d+))?)?-(?:amd|arm)64)")
XZ_MAGIC = b"\xfd7zXZ\x00"


class NoKernelError(Exception):
    """There is no kernel to boot; the text says what to do."""


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the directory to build modules against."""

    release: str
    image: Path
    build: Path
    modules: Path | None  # None: nothing has to be loaded to boot
    programs: Path = Path("/")  # the root whose programs the guest runs

    @property
    def machine(self) -> str:
        """Return the kernel's processor, as uname names it."""
        return "aarch64" if self.release.endswith("-arm64") else "x86_64"

    @property
    def debug(self) -> bool:
        """Say whether this one looks for mistakes while it runs, and is slow therefore."""
        return self.modules is None

    def bootable(self) -> Path:
        """Return the image for the emulator: unpacked where possible, which saves the guest seconds."""
        if self.debug or self.machine != "x86_64":
            return self.image
        data = self.image.read_bytes()
        start = data.find(XZ_MAGIC)
        if start < 0:
            return self.image
        cached = STORE / f"vmlinux-{self.release}-{hashlib.sha256(data).hexdigest()[:16]}"
        if not cached.exists():
            put(cached, lzma.LZMADecompressor().decompress(data[start:]))
        return cached


def flavour(kernel: Kernel) -> str:
    return f"{kernel.release}-debug" if kernel.debug else kernel.release


def images(root: Path) -> dict[str, Path]:
    """Return the kernels' images by release. Packages of Linux 7 have the image beside the modules."""
    found = {path.parent.name: path for path in (root / "lib/modules").glob("*/vmlinuz")}
    return found | {path.name.removeprefix("vmlinuz-"): path for path in (root / "boot").glob("vmlinuz-*")}


def debian_kernels(root: Path = Path("/")) -> list[list[Kernel]]:
    """Return Debian's kernels that modules can be built for, by series, the oldest first."""
    series: dict[tuple[int, ...], list[tuple[tuple[int, ...], Kernel]]] = {}
    for release, image in images(root).items():
        match = DEBIAN.fullmatch(release)
        if match is None:
            continue
        modules = root / "lib/modules" / release
        if (modules / "build" / "Makefile").exists() and (modules / "modules.dep").exists():
            numbers = tuple(int(number or 0) for number in match.groups()[1:])
            kernel = Kernel(release, image, modules / "build", modules)
            series.setdefault(numbers[:2], []).append((numbers, kernel))
    return [[kernel for _, kernel in sorted(series[one], key=lambda pair: pair[0])] for one in sorted(series)]


def debian_kernel() -> Kernel:
    """Return Debian's own kernel: the newest of the oldest series, as others are offered beside it."""
    found = debian_kernels()
    if not found:
        raise NoKernelError("no kernel with headers in /boot and /lib/modules; run: scripts/bootstrap test")
    return found[0][-1]


def next_kernel() -> Kernel:
    found = debian_kernels()
    if len(found) < 2:
        packages = "linux-image-6.12-amd64 linux-headers-6.12-amd64"
        raise NoKernelError(f"no kernel of a newer series with headers; run: apt-get install {packages}")
    return found[-1][-1]


def given_kernel(directory: Path) -> Kernel:
    name = directory / "build" / "include" / "config" / "kernel.release"
    image = directory / "bzImage"
    if not name.is_file() or not image.is_file():
        raise NoKernelError(
            f"{VARIABLE}={directory}: needs bzImage and build/ there; run: scripts/debug-kernel {directory}"
        )
    return Kernel(name.read_text().strip(), image, directory / "build", None)


def release_folder(release: str) -> Path:
    """Return where the kernel of a Debian release is unpacked: in `root`. `build` is the KDIR for modules."""
    return STORE / f"debian-{release}"


def release_kernel(release: str) -> Kernel:
    """Return the kernel of a Debian release that debian_release.py has unpacked."""
    folder = release_folder(release)
    found = debian_kernels(folder / "root")
    if not found or not (folder / "build" / "Makefile").exists():
        command = f"python -m tests.vm.harness.debian_release {release}"
        raise NoKernelError(f"{VARIABLE}={release}: {folder}: not there yet; run: {command}")
    programs = folder / "root" if release == ARM64 else Path("/")
    return dataclasses.replace(found[-1][-1], build=folder / "build", programs=programs)


def is_debug_kernel_given() -> bool:
    """Say whether CGPU_VM_KERNEL names a kernel that looks for mistakes."""
    return os.environ.get(VARIABLE, RELEASES[0]) not in RELEASES


def choose_kernel() -> Kernel:
    given = os.environ.get(VARIABLE)
    if given in RELEASES:
        return release_kernel(given)
    return given_kernel(Path(given).resolve()) if given else debian_kernel()
