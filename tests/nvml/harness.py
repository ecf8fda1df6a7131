# SPDX-License-Identifier: Apache-2.0
"""A daemon whose simulated cards limit cgroups themselves, as real ones do with a driver from 615 on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cgpu.kmod.daemon.simulate import Simulator
from tests.daemon.harness import ROOT, Daemon, Sliced, serve_cards
from tests.integration.engine import ENFORCE

DRIVER = "615.71.09"
UNIFIED = Path("/sys/fs/cgroup/unified")
WHOLE = Path("/sys/fs/cgroup")
NO_LIMIT = (1 << 64) - 1
# Version 2 as the whole of /sys/fs/cgroup, on machines that have it beside version 1.
ALONE = 'mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup && exec "$@"'


def hierarchy() -> Path:
    """Return where cgroup version 2 is here; skips where it is not."""
    for path in (WHOLE, UNIFIED):
        if (path / "cgroup.controllers").exists():
            return path
    pytest.skip("cgroup version 2 is mounted neither at /sys/fs/cgroup nor below it")


class Faults(ctypes.Structure):
    """struct memacct_faults."""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in (
            "set_code",
            "get_code",
            "card",
            "delay_ms",
            "forgetful",
            "mig",
            "spared",
            "sets",
            "gets",
            "softs",
        )
    )


class Group(ctypes.Structure):
    """struct memacct_group."""

    _fields_ = (
        ("path", ctypes.c_char * 512),
        ("card", ctypes.c_uint32),
        ("soft", ctypes.c_uint64),
        ("hard", ctypes.c_uint64),
        ("available", ctypes.c_uint64),
    )


class Card(ctypes.Structure):
    """struct memacct_card."""

    _fields_ = (("uuid", ctypes.c_char * 48), ("bytes", ctypes.c_uint64))


class Table(ctypes.Structure):
    """struct memacct."""

    _fields_ = (
        ("faults", Faults),
        ("lock", ctypes.c_uint64 * 5),
        ("version", ctypes.c_char * 64),
        ("cards", ctypes.c_uint32),
        ("card", Card * 32),
        ("group", Group * 1024),
    )


def build_library(folder: Path, table: Path, *flags: str) -> Path:
    """Build the fake of libnvidia-ml.so.1 into a folder."""
    folder.mkdir(exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    source = str(Path(__file__).with_name("nvml.c"))
    command = ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread", f'-DTABLE="{table}"', *flags]
    subprocess.run([*command, f"-I{ROOT}/kmod/sim/memory", source, "-o", str(library)], check=True)
    return library


class LimitedDaemon(Daemon):
    """A daemon, its cards, the library that sets their limits, and cgroups for slices."""

    def __init__(
        self,
        base: Path,
        cards: str = "T4",
        config: str = "",
        *,
        says: str = DRIVER,
        flags: tuple[str, ...] = (),
        faults: dict[str, int] | None = None,
        starts: bool = True,
    ) -> None:
        """Start it, or have it refuse, which is in refusal then.

        says: the driver's version; flags: for the library's compiler; faults: of the library from the start.
        """
        self.base = base
        self.groups = hierarchy() / f"opencgpu-{base.name}"
        self.groups.mkdir()
        subprocess.run(["mount", "--bind", str(base), str(base)], check=True)
        subprocess.run(["mount", "--make-shared", str(base)], check=True)
        self.file = base / "table"
        self._cards = cards
        self._says = says
        self.library = build_library(base / "nvml", self.file, *flags)
        self._faults = faults or {}
        self._starts = starts
        self.refusal = ""
        self.enforces = os.environ.get(ENFORCE) != "off"
        super().__init__(base, cards, f"nvml_library: {self.library}\n{config}")

    def start(self) -> None:
        """Start it, and its cards if they are gone."""
        self.serve()
        done = self.command(*self._options)
        assert done.returncode == (0 if self._starts else 1), done.stderr + self.log()
        self.refusal = done.stderr

    def serve(self) -> None:
        if Simulator(self.run / "sim").running() is None:
            server = serve_cards(self.run, self._cards, self._says, "--limits", str(self.file))
            server.returncode = 0  # its end is not ours to wait for
            self.fault(**self._faults)

    def command(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run cgpud with options, where cgroup version 2 is all there is."""
        line = [sys.executable, "-m", "cgpu.kmod.daemon.main", "--run", str(self.run), *options]
        if hierarchy() != WHOLE:
            line = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", ALONE, "sh", *line]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    def place(self, sliced: Sliced) -> None:
        """Put a container's first process into a cgroup of its own, unless it joins one."""
        group = self.groups / sliced.id[:12]
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text(str(sliced.process.pid))

    def backend(self) -> str:
        return self.read("engine").split()[2]

    def table(self) -> Table:
        """Return what the driver has of limits."""
        return Table.from_buffer_copy(self.file.read_bytes())

    def fault(self, **values: int) -> None:
        """Have the library do something from now on."""
        with self.file.open("r+b", buffering=0) as stream:
            for name, value in values.items():
                os.pwrite(stream.fileno(), value.to_bytes(4, "little"), getattr(Faults, name).offset)

    def limit(self, name: str, card: int = 0) -> int | None:
        """Return a cgroup's hard limit in the driver; None without one."""
        wanted = f"/{self.groups.name}/{name}".encode()
        for group in self.table().group:
            if group.path == wanted and group.card == card:
                assert group.soft == 0
                return None if group.hard == NO_LIMIT else int(group.hard)
        return None

    def charged(self, sliced: Sliced, card: int = 0) -> int:
        """Return what the driver has charged to the cgroup of a slice that has a limit."""
        wanted = f"/{self.groups.name}/{sliced.id[:12]}".encode()
        found = [group for group in self.table().group if group.path == wanted and group.card == card]
        return int(found[0].hard - found[0].available)

    def limit_of(self, sliced: Sliced, card: int = 0) -> int | None:
        return self.limit(sliced.id[:12], card)

    def close(self) -> None:
        """Stop all, and take cgroups and mounts away."""
        self.fault(set_code=0, get_code=0, delay_ms=0, forgetful=0)
        assert self.table().faults.softs == 0, "a soft limit was set"
        super().close()
        Simulator(self.run / "sim").stop()
        for _ in range(500):
            with contextlib.suppress(OSError):
                for group in self.groups.iterdir():
                    if group.is_dir():
                        group.rmdir()
                self.groups.rmdir()
                break
            time.sleep(0.01)
        subprocess.run(["umount", "--lazy", str(self.base)], check=False)
