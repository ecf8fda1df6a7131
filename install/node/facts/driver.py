# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver and its cards, as they show themselves below /proc, and MIG by nvidia-smi."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import cgpu
from cgpu.install.node.facts import files, programs
from cgpu.kmod.abi.rows.files import NODE, Rows, read
from cgpu.node_files import below

TABLE = Path(cgpu.__file__).resolve().parent / "kmod" / "abi" / "nvidia.json"
DRIVER = "/proc/driver/nvidia"
VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)")
MAX_CARDS = 64
INSTANCE = re.compile(r"gi\d+")
OPEN, PROPRIETARY = "open", "proprietary"
MIG_MODES = ("--query-gpu=pci.bus_id,mig.mode.current", "--format=csv,noheader")
SMI_S = 10.0  # it may have to start each idle card


@dataclass(frozen=True, slots=True)
class Card:
    """One card. firmware: None where the driver runs it without.

    mig: whether it is cut into instances, or by with_mig() whether it is in MIG mode.
    """

    bus: str
    model: str
    uuid: str
    firmware: str | None
    mig: bool


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
    rows: Rows = field(default_factory=Rows)
    """Further versions, by signed files of the node."""


def gather(root: Path, release: str | None) -> Driver:
    """Read the facts below a root."""
    said = files.text(root, f"{DRIVER}/version") or ""
    loaded, kind = parse_version(said)
    cards = tuple(_card(root, bus) for bus in files.names(root, f"{DRIVER}/gpus")[:MAX_CARDS])
    listed = files.text(root, f"/lib/modules/{release}/modules.dep", 1 << 24) if release else None
    return Driver(
        loaded=loaded,
        kind=kind,
        known=loaded in tags(),
        installed=is_installed(listed or ""),
        uvm="nvidia-uvm" in (files.text(root, "/proc/devices") or "").split(),
        cards=cards,
        rows=read(below(root, NODE)),
    )


def with_mig(found: Driver, root: Path) -> Driver:
    """Return the driver with each card marked that nvidia-smi says is in MIG mode.

    /proc shows nothing of a card in MIG mode without instances. NVIDIA's library stays out of this process.
    """
    path = programs.find(root, "nvidia-smi") if str(root) == "/" and found.cards else None
    asked = (
        programs.output(str(path), *MIG_MODES, timeout_s=SMI_S) if path and _is_roots_alone(path) else None
    )
    rows = (line.partition(",") for line in (asked or "").splitlines())
    cut = {_place(bus.strip()) for bus, _, mode in rows if mode.strip() == "Enabled"}
    return replace(
        found, cards=tuple(replace(card, mig=card.mig or _place(card.bus) in cut) for card in found.cards)
    )


def _is_roots_alone(path: Path) -> bool:
    """Return whether only root can replace or change a program, which root is about to run."""
    try:
        real = path.resolve(strict=True)
        found = [one.stat() for one in (real, real.parent)]
    except OSError:
        return False
    return not any(one.st_uid or one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for one in found)


def _place(bus: str) -> str:
    """Return a place on the bus as nvidia-smi writes it: /proc has four digits less of the domain."""
    return bus.upper().rjust(len("00000000:00:00.0"), "0")


@cache
def tags() -> frozenset[str]:
    """Return the versions of the table that were compared with their headers."""
    table = json.loads(TABLE.read_text())
    return frozenset(table["tags"]) - frozenset(table["unverified"])


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


def _card(root: Path, bus: str) -> Card:
    said = parse_card(files.text(root, f"{DRIVER}/gpus/{bus}/information") or "")
    minor = said.get("Device Minor", "?")
    firmware = said.get("GPU Firmware", "N/A")
    instances = files.names(root, f"{DRIVER}/capabilities/gpu{minor}/mig")
    return Card(
        bus=bus,
        model=said.get("Model", ""),
        uuid=said.get("GPU UUID", ""),
        firmware=firmware if firmware not in ("", "N/A") else None,
        mig=any(INSTANCE.fullmatch(name) for name in instances),
    )
