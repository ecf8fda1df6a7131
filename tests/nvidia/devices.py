# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's programs look at beside the driver's nodes, where those are a simulated card's plain files.

Programs want character devices, and files of /proc and /sys. preload/devices.c, preloaded, makes the nodes
look so and leads /proc and /sys to the files written here. Where nodes are devices none of this is needed.
"""

from __future__ import annotations

import fcntl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.nvidia.archive import STORE

SOURCE = Path(__file__).parent / "preload" / "devices.c"
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

    def environment(self) -> dict[str, str]:
        """Return the variables that a program needs."""
        return {
            "LD_PRELOAD": str(self.library),
            "CGPU_DEVICES": str(self.folder),
            "CGPU_UVM_MAJOR": str(UVM_MAJOR),
        }


def library() -> Path:
    """Build the library to preload where it is missing or old, and return it."""
    STORE.mkdir(parents=True, exist_ok=True)
    target = STORE / "libdevices.so"
    with (STORE / "devices.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
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
            subprocess.run(["gcc", *words, "-o", part, SOURCE, "-ldl"], check=True, timeout=60)
            part.rename(target)
    return target


def bus_of(information: str) -> str:
    """Return a card's PCI address out of the text that the driver has of it."""
    (line,) = (line for line in information.splitlines() if line.startswith("Bus Location:"))
    return line.split()[-1]


def files(mount: Path) -> dict[str, str]:
    """Return path and text of each file that the driver of simulated cards would have in /proc and /sys."""
    version = (mount / "driver" / "version").read_text().strip()
    found = {
        "proc/devices": MAJORS,
        "proc/driver/nvidia/params": PARAMS,
        "proc/driver/nvidia/version": VERSION.format(version),
        "sys/module/nvidia/initstate": "live\n",
        "sys/module/nvidia/version": f"{version}\n",
        "sys/module/nvidia_uvm/initstate": "live\n",
    }
    for card in (mount / "driver" / "gpus").iterdir():
        information = (card / "information").read_text()
        found[f"proc/driver/nvidia/gpus/{bus_of(information)}/information"] = information
    return found


def place(mount: Path, folder: Path) -> Devices:
    """Write the files for simulated cards into a folder."""
    for name, text in files(mount).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Devices(library(), folder)
