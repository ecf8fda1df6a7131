# SPDX-License-Identifier: Apache-2.0
"""The initramfs: busybox, the modules that reach the host's files, the agent, and their scripts."""

from __future__ import annotations

import lzma
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.vm.harness import cross
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.store import STORE, digest, put

GUEST = Path(__file__).resolve().parents[1] / "guest"
BUSYBOX = "bin/busybox"
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p")
APPLETS = ("sh", "cat", "cp", "hostname", "insmod", "ip", "ln", "ls", "mkdir", "mount", "reboot", "rmdir",
           "sed", "sleep", "switch_root", "umount")  # fmt: skip
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-s", "-static", "-Wall", "-Wextra", "-Werror", "-Wshadow",
         "-Wstrict-prototypes", "-Wmissing-prototypes")  # fmt: skip


@dataclass(frozen=True)
class Start:
    """Start of a guest: its first script, and the modules that this needs beside MODULES."""

    script: str
    modules: tuple[str, ...]


FROM_HOST = Start("init", ("overlay",))
FROM_DISK = Start("init-systemd", ("virtio_blk", "ext4", "crc32c_generic"))


@dataclass(frozen=True)
class Entry:
    """A file, directory or link of the archive."""

    name: str
    mode: int
    data: bytes = b""


def build_agent() -> Path:
    """Compile the agent, unless this one is there already."""
    sources = sorted(GUEST.glob("*.[ch]"))
    command = [*cross.tool("gcc"), *FLAGS]
    agent = STORE / f"agent-{digest([*(path.read_bytes() for path in sources), repr(command).encode()])}"
    if not agent.exists():
        with tempfile.TemporaryDirectory() as directory:
            output = Path(directory) / "agent"
            programs = [str(path) for path in sources if path.suffix == ".c"]
            subprocess.run([*command, "-o", output, *programs], check=True)
            put(agent, output.read_bytes())
            agent.chmod(0o755)
    return agent


def module_files(modules: Path, wanted: Iterable[str]) -> list[Path]:
    """Return the modules to load, each after those that it needs."""
    needs: dict[str, list[str]] = {}
    paths: dict[str, str] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        name = Path(path).name.split(".")[0]
        paths[name] = path
        needs[name] = [Path(need).name.split(".")[0] for need in rest.split()]
    builtin = {Path(line).stem for line in (modules / "modules.builtin").read_text().splitlines()}
    order: list[str] = []

    def add(name: str) -> None:
        if name in builtin or name in order:
            return
        for need in needs[name]:
            add(need)
        order.append(name)

    for name in wanted:
        add(name)
    return [modules / paths[name] for name in order]


def module_entry(path: Path) -> Entry:
    """Return a module as the archive has it: unpacked."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        path, data = path.with_suffix(""), lzma.decompress(data)
    return Entry(f"modules/{path.name}", stat.S_IFREG | 0o644, data)


def archive(entries: Iterable[Entry]) -> bytes:
    """Pack entries in the form that the kernel unpacks (cpio, "newc")."""
    packed = bytearray()
    trailer = Entry("TRAILER!!!", 0)
    for inode, entry in enumerate([*entries, trailer], 1):
        name = entry.name.encode() + b"\0"
        fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
        packed += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        packed += bytes(-len(packed) % 4) + entry.data
        packed += bytes(-len(packed) % 4)
    return bytes(packed)


def contents(kernel: Kernel, start: Start) -> list[Entry]:
    """Return what the archive holds for a kernel."""
    wanted = (*MODULES, *start.modules)
    loaded = [module_entry(path) for path in module_files(kernel.modules, wanted)] if kernel.modules else []
    order = "".join(f"{Path(entry.name).name}\n" for entry in loaded)
    program = stat.S_IFREG | 0o755
    entries = [Entry(name, stat.S_IFDIR | 0o755) for name in ("bin", "dev", "proc", "sys", "modules")]
    entries += [
        Entry("init", program, (GUEST / start.script).read_bytes()),
        Entry("agent", program, build_agent().read_bytes()),
        Entry(BUSYBOX, program, (kernel.programs / BUSYBOX).read_bytes()),
        Entry("modules/order", stat.S_IFREG | 0o644, order.encode()),
    ]
    entries += [Entry(f"bin/{name}", stat.S_IFLNK | 0o777, b"busybox") for name in APPLETS]
    return entries + loaded


def build_initramfs(kernel: Kernel, start: Start = FROM_HOST) -> Path:
    """Return the initramfs for a kernel; made anew when anything in it has changed."""
    data = archive(contents(kernel, start))
    name = f"initramfs-{start.script}-{kernel.release}"
    path = STORE / f"{name}-{digest([data])}"
    if not path.exists():
        for old in path.parent.glob(f"{name}-*"):
            old.unlink(missing_ok=True)
        put(path, data)
    os.utime(path)
    return path
