# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver and its cards, as they show themselves below /proc and by NVIDIA's library."""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
import stat
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import cgpu
from cgpu.errors import CgpuError
from cgpu.install.node.facts import bounded, files

TABLE = Path(cgpu.__file__).resolve().parent / "kmod" / "abi" / "nvidia.json"
DRIVER = "/proc/driver/nvidia"
VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)")
LIBRARY = "libnvidia-ml.so.1"
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",  # a driver that runs as a container
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib64",
)
NVML_S = 10.0
MAX_CARDS = 64
OPEN, PROPRIETARY = "open", "proprietary"


@dataclass(frozen=True, slots=True)
class Card:
    """One card. firmware: None where the driver runs it without; mig: None where that is not known."""

    bus: str
    model: str
    uuid: str
    firmware: str | None
    mig: bool | None


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver that is loaded, or only installed."""

    loaded: str | None
    kind: str | None
    """open or proprietary."""
    known: bool
    """Whether the table of drivers has the loaded version."""
    installed: bool
    """Whether the running kernel has the driver's modules."""
    uvm: bool
    """Whether its part for managed memory is loaded."""
    cards: tuple[Card, ...]
    library_problem: str | None
    """Why MIG could not be asked for."""


def gather(root: Path, release: str | None) -> Driver:
    """Read the facts below a root. NVIDIA's library is asked on this machine's own root only."""
    said = files.text(root, f"{DRIVER}/version") or ""
    loaded, kind = parse_version(said)
    cards = tuple(_card(root, bus) for bus in files.names(root, f"{DRIVER}/gpus")[:MAX_CARDS])
    problem = None
    if str(root) == "/" and loaded is not None:
        try:
            library = find_library()
            modes = ask_mig(library, [card.bus for card in cards])
            cards = tuple(replace(card, mig=modes.get(card.bus, card.mig)) for card in cards)
        except CgpuError as error:
            problem = str(error)
    listed = files.text(root, f"/lib/modules/{release}/modules.dep", 1 << 24) if release else None
    return Driver(
        loaded=loaded,
        kind=kind,
        known=loaded in tags(),
        installed=is_installed(listed or ""),
        uvm="nvidia-uvm" in (files.text(root, "/proc/devices") or "").split(),
        cards=cards,
        library_problem=problem,
    )


@cache
def tags() -> frozenset[str]:
    """Return the versions that the table of drivers has."""
    return frozenset(json.loads(TABLE.read_text())["tags"])


def parse_version(said: str) -> tuple[str | None, str | None]:
    """Return version and kind out of the driver's own line."""
    first = said.partition("\n")[0]
    found = VERSION.search(first)
    if found is None:
        return None, None
    return found[1], OPEN if "Open Kernel Module" in first else PROPRIETARY


def parse_card(said: str) -> dict[str, str]:
    """Return what a card's file says, by its names."""
    pairs = (line.partition(":") for line in said.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def is_installed(modules_dep: str) -> bool:
    """Tell whether a kernel's list of modules has the driver."""
    return any(
        re.fullmatch(r"(?:.*/)?nvidia\.ko(?:\.\w+)?", line.partition(":")[0])
        for line in modules_dep.splitlines()
    )


def find_library() -> Path:
    """Return the library to load, by its whole path: the environment has no say. Raises CgpuError."""
    for folder in FOLDERS:
        path = Path(folder, LIBRARY)
        if path.exists():
            return _trusted(path)
    raise CgpuError(f"{LIBRARY} is in none of {', '.join(FOLDERS)}")


def _trusted(path: Path) -> Path:
    # The library becomes part of a process of root's.
    try:
        real = path.resolve(strict=True)
        for one in (real, real.parent):
            about = one.stat()
            if about.st_uid != 0 or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise CgpuError(f"{one}: others than root may write it; it is not loaded")
    except OSError as error:
        raise CgpuError(f"{path}: {error.strerror}") from error
    return real


def ask_mig(library: Path, buses: list[str]) -> dict[str, bool]:
    """Return for each place on the bus whether its card is, or is about to be, in MIG mode. Raises CgpuError.

    By the bus: an idle card has no UUID in /proc.
    """
    answer = bounded.ask(lambda: _ask_library(library, buses), str(library), NVML_S)
    return {str(bus): bool(mode) for bus, mode in answer.items()}


def _ask_library(library: Path, buses: list[str]) -> dict[str, bool]:
    try:
        import pynvml
    except ImportError as error:
        raise CgpuError("nvidia-ml-py is not installed: pip install nvidia-ml-py") from error
    modes = {}
    try:
        # The binding itself would have the loader search, LD_LIBRARY_PATH first.
        pynvml.nvmlLib = ctypes.CDLL(str(library))
        pynvml.nvmlInit()
        for bus in buses:
            modes[bus] = False
            with contextlib.suppress(pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
                modes[bus] = any(pynvml.nvmlDeviceGetMigMode(pynvml.nvmlDeviceGetHandleByPciBusId(bus)))
    except (OSError, pynvml.NVMLError) as error:
        raise CgpuError(f"{library}: {error}") from error
    return modes


def _card(root: Path, bus: str) -> Card:
    said = parse_card(files.text(root, f"{DRIVER}/gpus/{bus}/information") or "")
    minor = said.get("Device Minor", "")
    known = minor.isascii() and minor.isdigit()
    firmware = said.get("GPU Firmware", "N/A")
    return Card(
        bus=bus,
        model=said.get("Model", ""),
        uuid=said.get("GPU UUID", ""),
        firmware=firmware if firmware not in ("", "N/A") else None,
        mig=_has_instances(root, minor) if known else None,
    )


def _has_instances(root: Path, minor: str) -> bool | None:
    """MIG that has been cut into instances shows below /proc; without instances only the library tells."""
    instances = files.names(root, f"{DRIVER}/capabilities/gpu{minor}/mig")
    return True if any(re.fullmatch(r"gi\d+", name) for name in instances) else None
