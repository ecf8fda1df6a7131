# SPDX-License-Identifier: Apache-2.0
"""What of others' software is on this machine that OpenCGPU works with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cgpu.install.node.facts import files, programs
from cgpu.install.node.facts.programs import Process
from cgpu.runtime_config.engines.registry import ENGINES

LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/local/lib",
)
FUSE = "libfuse3.so.3"
SYSTEMD = "/run/systemd/system"
# Each engine with the program that runs when it serves; podman has none.
PROGRAMS = {engine.name: engine.program for engine in ENGINES.values() if engine.program}
LOW_LEVEL = ("nvidia-container-runtime", "runc", "crun")


@dataclass(frozen=True, slots=True)
class Program:
    """One program: its path, what it says its version is, whether a process runs it."""

    name: str
    path: Path
    version: str | None
    running: bool


@dataclass(frozen=True, slots=True)
class Software:
    """What is there. systemd: whether it is the init process; its version where that is known."""

    fuse: Path | None
    systemd: bool
    systemd_version: int | None
    dkms: Program | None
    engines: tuple[Program, ...]
    low_level: tuple[Program, ...]

    def engine(self, name: str) -> Program | None:
        """Return a container engine by the name that --runtimes has."""
        return next((one for one in self.engines if one.name == name), None)


def gather(root: Path, running: tuple[Process, ...]) -> Software:
    """Read the facts below a root."""
    alive = {one.program for one in running}
    systemd = files.follow(root, SYSTEMD).is_dir()
    return Software(
        fuse=next(
            (Path(one, FUSE) for one in LIBRARY_FOLDERS if files.follow(root, f"{one}/{FUSE}").is_file()),
            None,
        ),
        systemd=systemd,
        systemd_version=_systemd_version(root),
        dkms=_program(root, "dkms", "dkms", alive),
        engines=_programs(root, PROGRAMS, alive),
        low_level=_programs(root, {name: name for name in LOW_LEVEL}, alive),
    )


def _programs(root: Path, wanted: dict[str, str], alive: set[str]) -> tuple[Program, ...]:
    found = (_program(root, name, program, alive) for name, program in wanted.items())
    return tuple(one for one in found if one is not None)


def _program(root: Path, name: str, program: str, alive: set[str]) -> Program | None:
    path = programs.find(root, program)
    if path is None:
        return None
    return Program(name, path, programs.version(root, path), program in alive)


def _systemd_version(root: Path) -> int | None:
    path = programs.find(root, "systemctl")
    said = programs.version(root, path) if path is not None else None
    major = programs.numbers(said)
    return major[0] if major else None
