# SPDX-License-Identifier: Apache-2.0
"""A clean Debian 12 on a disk, by mmdebstrap from the sources that apt has here.

The disk has systemd, docker and dkms, and the fake NVIDIA driver, as if an administrator had installed that.

An emulated machine compiles for a quarter of an hour. So `make` hands out there what the host has compiled,
and of the kernel's files only those are there that the machine uses. With full counts Debian's own kernel and
headers are there, and this version of the module is compiled in the machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from cgpu import __version__
from tests.integration.commands import hold_lock
from tests.packages import OLD, renumber
from tests.vm.harness.counts import count
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.mmdebstrap import SECONDS, make_root, remove, sources
from tests.vm.harness.node import MAKE_NODES, build_engine, build_fake_driver
from tests.vm.harness.store import STORE, digest

SUITE = "bookworm"
DISK_SIZE = "6G"
PACKAGES = ("apparmor", "busybox-static", "containerd", "dbus", "dkms", "docker.io", "fuse3", "gcc",
            "iptables", "kmod", "make", "openssl", "procps", "python3", "runc", "systemd", "systemd-sysv",
            "udev")  # fmt: skip
# With it dkms compiles.
FULL_PACKAGES = ("libc6-dev",)
UNREAD = ("doc", "man", "locale")  # below /usr/share
PREBUILT = STORE / "prebuilt"  # in it VERSION/*.ko
# Parts of the kernel's modules that the machine has no use for: depmod reads all there are.
UNUSED = {"sound", *(f"drivers/{name}" for name in (
    "ata", "comedi", "edac", "gpu", "hwmon", "i2c", "iio", "infiniband", "input", "isdn", "leds", "md",
    "media", "mfd", "mtd", "net/can", "net/ethernet", "net/wireless", "nvme", "pinctrl", "platform",
    "power", "regulator", "rtc", "scsi", "staging", "target", "usb", "video",
))}  # fmt: skip
DRIVER_UNIT = """\
[Unit]
Description=NVIDIA's driver and its device nodes

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/modprobe -a nvidia nvidia-uvm
ExecStart=/usr/local/sbin/nvidia-nodes

[Install]
WantedBy=multi-user.target
"""
DRIVER = "nvidia-persistenced.service"  # the name that units on a node order themselves by
# Only the module's own build: dkms calls it so.
MAKE = f"""\
#!/bin/sh
for word; do
	case $word in
	CGPU_VERSION=*) version=${{word#*=}} ;;
	OUT=*) out=${{word#*=}} ;;
	esac
done
[ -d "/run/host{PREBUILT}/${{version:-none}}" ] || exec /usr/bin/make.real "$@"
mkdir -p "module/$out" && cp "/run/host{PREBUILT}/$version/"*.ko "module/$out"
"""


def debootstrap(root: Path, packages: Iterable[str]) -> None:
    """Install Debian into a folder."""
    options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNREAD]
    options += ["--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={','.join(packages)}"]
    make_root(SUITE, root, *options)
    for name in ("etc/resolv.conf", "etc/apt/sources.list"):
        (root / name).unlink(missing_ok=True)
    (root / "etc/apt/sources.list").write_text("")
    (root / "etc/hostname").write_text("node\n")


def copy_kernel(kernel: Kernel, root: Path) -> None:
    """Put the kernel's modules that the machine may want into a root, and the folder of its headers."""
    assert kernel.modules is not None
    target = root / "lib/modules" / kernel.release
    unused = {str(kernel.modules / "kernel" / name) for name in UNUSED}

    def drop(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if f"{folder}/{name}" in unused}

    shutil.copytree(kernel.modules / "kernel", target / "kernel", ignore=drop)
    for path in kernel.modules.glob("modules.*"):
        shutil.copy2(path, target)
    shutil.copy2(f"/boot/config-{kernel.release}", root / "boot")
    headers = kernel.build.resolve()
    shutil.copytree(headers, root / str(headers).lstrip("/"), symlinks=True)
    (target / "build").symlink_to(headers)


def add_driver(kernel: Kernel, root: Path) -> None:
    """Install the fake NVIDIA driver, with a T4: it is loaded at boot, and has its nodes."""
    folder = root / "lib/modules" / kernel.release / "updates"
    folder.mkdir(exist_ok=True)
    for name in ("nvidia", "nvidia-uvm"):
        shutil.copy2(build_fake_driver(kernel) / f"{name}.ko", folder)
    write(root / "etc/modprobe.d/nvidia.conf", "options nvidia cards=T4:1\n")
    write(root / "usr/local/sbin/nvidia-nodes", f"#!/bin/sh\n{MAKE_NODES}", 0o755)
    write(root / "lib/systemd/system" / DRIVER, DRIVER_UNIT)
    (root / "etc/systemd/system/multi-user.target.wants" / DRIVER).symlink_to(f"/lib/systemd/system/{DRIVER}")
    subprocess.run(["/sbin/depmod", "-b", root, kernel.release], check=True, timeout=60)


def prebuild(kernel: Kernel) -> None:
    """Lay out what `make` hands out there: modules of the version before, and in quick runs of this."""
    built = build_engine(kernel)
    shutil.rmtree(PREBUILT, ignore_errors=True)
    for version in (OLD, *count((__version__,), ())):
        folder = PREBUILT / version
        folder.mkdir(parents=True)
        for path in built.glob("*.ko"):
            name = path.name if version != OLD else path.name.replace(dashed(__version__), dashed(OLD))
            shutil.copy2(path, folder / name)
            if version == OLD:
                renumber(folder / name)


def dashed(version: str) -> str:
    """Return a version as names of modules have it."""
    return version.replace(".", "_")


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text)
    path.chmod(mode)


def packages_for(kernel: Kernel) -> tuple[str, ...]:
    """Return the packages that the machine has beside the smallest Debian."""
    with_kernel = (f"linux-image-{kernel.release}", f"linux-headers-{kernel.release}", *FULL_PACKAGES)
    return PACKAGES + count((), with_kernel)


def image(kernel: Kernel) -> Path:
    """Return a disk with the system; made once for this file's contents, for it takes most of a minute."""
    packages = packages_for(kernel)
    parts = [Path(__file__).read_text(), sources(SUITE), *packages, MAKE_NODES]
    modules = sorted(build_fake_driver(kernel).glob("*.ko"))
    name = digest([*(part.encode() for part in parts), *(path.read_bytes() for path in modules)])
    made = STORE / f"debian-{count('quick', 'full')}-{name}"
    with hold_lock(STORE / "debian.lock"):
        if not made.exists():
            make_image(kernel, packages, made)
    return made


def make_image(kernel: Kernel, packages: tuple[str, ...], made: Path) -> None:
    for old in STORE.glob(made.name.rpartition("-")[0] + "-*"):
        old.unlink()
    root, part = STORE / f"root-of-{made.name}", STORE / f"part-of-{made.name}"
    remove(root)
    try:
        debootstrap(root, packages)
        if not count(False, True):
            copy_kernel(kernel, root)
        (root / "usr/bin/make").rename(root / "usr/bin/make.real")
        write(root / "usr/bin/make", MAKE, 0o755)
        add_driver(kernel, root)
        command = ["/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", str(root), str(part), DISK_SIZE]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
        part.rename(made)
    finally:
        remove(root)


def new_disk(kernel: Kernel, directory: Path) -> Path:
    """Return a disk of one's own with the system on it."""
    disk = directory / "disk"
    command = ["cp", "--sparse=always", "--reflink=auto", str(image(kernel)), str(disk)]
    subprocess.run(command, check=True, timeout=SECONDS)
    return disk
