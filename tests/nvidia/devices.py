# SPDX-License-Identifier: Apache-2.0
"""Files that NVIDIA's programs read beside the driver's nodes, where those are a simulated card's.

Programs want character devices, and files of /proc and /sys. preload/devices.c, preloaded, makes the nodes
look so and leads /proc and /sys to the files written here. Where nodes are devices none of this is needed.
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import hold_lock
from tests.nvidia.archive import STORE

SOURCES = tuple(Path(__file__).parent / "preload" / name for name in ("devices.c", "mappings.c"))
MAPPING = Path(__file__).resolve().parents[2] / "kmod" / "sim" / "memory"  # mapping.h
UVM_MAJOR = 511  # any that no driver of this machine has
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  simulated\n"
PARAMS = """\
ResmanDebugLevel: 4294967295
ModifyDeviceFiles: 0
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
RegistryDwords: ""
"""
MAJORS = f"""\
Character devices:
  1 mem
195 nvidia
195 nvidiactl
{UVM_MAJOR} nvidia-uvm

Block devices:
"""


@dataclass(frozen=True)
class Devices:
    """The library to preload and the folder with the files, as a program sees their paths."""

    library: Path
    folder: Path
    memory: Path | None = None  # of the cards, where clients map it

    def environment(self) -> dict[str, str]:
        found = {
            "LD_PRELOAD": str(self.library),
            "CGPU_DEVICES": str(self.folder),
            "CGPU_UVM_MAJOR": str(UVM_MAJOR),
        }
        return found | ({"CGPU_MEMORY": str(self.memory)} if self.memory else {})


def library() -> Path:
    """Build the library to preload where it is missing or old, and return it."""
    target = STORE / "libdevices.so"
    with hold_lock(STORE / "lock"):
        if not target.exists() or target.stat().st_mtime < max(
            each.stat().st_mtime for each in (*SOURCES, MAPPING / "mapping.h")
        ):
            part = target.with_suffix(".part")
            words = [
                "-std=gnu11",
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fPIC",
                "-shared",
                "-fvisibility=hidden",
            ]
            subprocess.run(
                ["gcc", *words, f"-iquote{MAPPING}", "-o", part, *SOURCES, "-ldl"], check=True, timeout=60
            )
            part.rename(target)
    return target


def bus_of(information: str) -> str:
    (line,) = (line for line in information.splitlines() if line.startswith("Bus Location:"))
    return line.split()[-1]


def pci(config: bytes) -> dict[str, str | bytes]:
    """Return what Linux has of a PCI function, out of its configuration space (PCI Local Bus 3.0, 6.1)."""
    vendor, device = struct.unpack_from("<HH", config, 0)
    subsystem = struct.unpack_from("<HH", config, 0x2C)
    (kind,) = struct.unpack_from("<I", config, 8)
    return {
        "config": config,
        "vendor": f"{vendor:#06x}\n",
        "device": f"{device:#06x}\n",
        "subsystem_vendor": f"{subsystem[0]:#06x}\n",
        "subsystem_device": f"{subsystem[1]:#06x}\n",
        "class": f"{kind >> 8:#08x}\n",
        "revision": f"{kind & 0xFF:#04x}\n",
        "numa_node": "0\n",
        "local_cpus": Path("/sys/devices/system/node/node0/cpumap").read_text(),
        "local_cpulist": Path("/sys/devices/system/node/node0/cpulist").read_text(),
    }


def files(mount: Path) -> dict[str, str | bytes]:
    """Return path and content of each file that a driver of these cards would have in /proc and /sys."""
    version = (mount / "driver" / "version").read_text().strip()
    found: dict[str, str | bytes] = {
        "proc/devices": MAJORS,
        "proc/driver/nvidia/params": PARAMS,
        "proc/driver/nvidia/version": VERSION.format(version),
        "sys/module/nvidia/initstate": "live\n",
        "sys/module/nvidia/version": f"{version}\n",
        "sys/module/nvidia_uvm/initstate": "live\n",
    }
    for card in (mount / "driver" / "gpus").iterdir():
        information = (card / "information").read_text()
        bus = bus_of(information)
        found[f"proc/driver/nvidia/gpus/{bus}/information"] = information
        for name, content in pci((card / "config").read_bytes()).items():
            found[f"sys/bus/pci/devices/{bus}/{name}"] = content
    return found


def place(mount: Path, folder: Path, memory: Path | None = None) -> Devices:
    """Write the files for simulated cards into a folder."""
    for name, content in files(mount).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return Devices(library(), folder, memory)
