# SPDX-License-Identifier: Apache-2.0
"""Software of others: programs with their versions, and what shares the GPUs: MPS, HAMi, device plugins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cgpu import distribution, paths
from cgpu.install.node.facts import files, programs
from cgpu.install.node.facts.programs import Process
from cgpu.kmod.daemon.tree.libfuse import LIBRARIES
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.engines.systems import system
from cgpu.runtime_config.oci_runtime.lowlevel import BROUGHT
from cgpu.runtime_config.programs import numbers

LIBRARY_FOLDERS = (
    *((f"{paths.BUNDLE}/lib",) if paths.BUNDLE else ()),
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/local/lib",
)
SYSTEMD = "/run/systemd/system"
# Each engine with the program that runs when it serves; podman has none.
PROGRAMS = {one.name: one.program for one in ENGINES.values() if one.program and not one.is_part}
LOW_LEVEL = ("nvidia-container-runtime", "runc", "crun")
MPS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
MPS_PIPES = ("/tmp/nvidia-mps", "/run/nvidia/mps")
PRELOAD = "/etc/ld.so.preload"
HAMI_LIBRARY = "libvgpu.so"
HAMI_FOLDERS = ("/usr/local/vgpu",)
HAMI_PROGRAMS = ("vGPUmonitor", "hami-device-plugin", "vgpu-device-plugin")
KUBELET = "/var/lib/kubelet"
PLUGINS = f"{KUBELET}/device-plugins"
CHECKPOINT = f"{PLUGINS}/kubelet_internal_checkpoint"
PLUGIN_PROGRAMS = ("nvidia-device-plugin", "mps-control-daemon")
REPLICA = "::"  # the vendor's device plugin numbers the replicas of one GPU behind this
CHECKPOINT_MAX = 1 << 24


@dataclass(frozen=True, slots=True)
class Program:
    """One program: its path, what it says its version is, whether a process runs it."""

    name: str
    path: Path
    version: str | None
    running: bool


@dataclass(frozen=True, slots=True)
class Software:
    """Programs and libraries that are installed. systemd: whether it is the init process."""

    family: str | None
    """Family of the distribution: DEBIAN or RPM of cgpu.distribution."""
    fuse: Path | None
    systemd: bool
    systemd_version: int | None
    dkms: Program | None
    engines: tuple[Program, ...]
    low_level: tuple[Program, ...]
    kubelet: bool
    """Whether a kubelet has had pods here."""
    by_hand: str = ""
    """A person's work where containerd's settings are no files that last."""

    def engine(self, name: str) -> Program | None:
        """Return a container engine by the name that --runtimes has."""
        return next((one for one in self.engines if one.name == name), None)


def gather(root: Path, running: tuple[Process, ...]) -> Software:
    """Read the facts below a root."""
    alive = {one.program for one in running}
    systemd = files.follow(root, SYSTEMD).is_dir()
    return Software(
        family=distribution.family(_os_release(root)),
        fuse=_library(root, LIBRARIES),
        systemd=systemd,
        systemd_version=_systemd_version(root),
        dkms=_program(root, "dkms", "dkms", alive),
        engines=(*_programs(root, PROGRAMS, alive), *_brought(root, alive)),
        low_level=_programs(root, {name: name for name in LOW_LEVEL}, alive, BROUGHT),
        kubelet=files.follow(root, f"{KUBELET}/pods").is_dir(),
        by_hand=system(root).by_hand,
    )


def _os_release(root: Path) -> str | None:
    texts = (files.text(root, path, distribution.OS_RELEASE_MAX) for path in distribution.OS_RELEASE)
    return next((text for text in texts if text is not None), None)


def _library(root: Path, names: tuple[str, ...]) -> Path | None:
    places = (Path(folder, name) for name in names for folder in LIBRARY_FOLDERS)
    return next((place for place in places if files.follow(root, str(place)).is_file()), None)


def _programs(
    root: Path, wanted: dict[str, str], alive: set[str], also: tuple[str, ...] = ()
) -> tuple[Program, ...]:
    found = (_program(root, name, program, alive, also) for name, program in wanted.items())
    return tuple(one for one in found if one is not None)


def _program(
    root: Path, name: str, program: str, alive: set[str], also: tuple[str, ...] = ()
) -> Program | None:
    path = programs.find(root, program, also)
    if path is None:
        return None
    return Program(name, path, programs.version(root, path), program in alive)


def _brought(root: Path, alive: set[str]) -> Iterator[Program]:
    """Yield the engines that other software has brought, by their settings."""
    for one in ENGINES.values():
        if one.is_part and files.follow(root, one.path).is_file():
            path = Path(one.search[0], one.program)
            yield Program(one.name, path, programs.version(root, path), one.program in alive)


def _systemd_version(root: Path) -> int | None:
    path = programs.find(root, "systemctl")
    said = programs.version(root, path) if path is not None else None
    major = numbers(said)
    return major[0] if major else None


@dataclass(frozen=True, slots=True)
class Sharing:
    """Other software that shares GPUs, in words for a message: paths, process names with their numbers."""

    mps: tuple[str, ...]
    hami: tuple[str, ...]
    device_plugin: tuple[str, ...]
    """Sockets and processes of the vendor's device plugin: by itself it gives GPUs out whole."""
    replicas: tuple[str, ...]
    """Resources whose GPUs the kubelet was offered several times."""


def sharing(root: Path, running: tuple[Process, ...]) -> Sharing:
    """Read what shares the GPUs below a root."""
    sockets = [
        name for name in files.names(root, PLUGINS) if name.startswith("nvidia") and name.endswith(".sock")
    ]
    offered = replicated(files.text(root, CHECKPOINT, CHECKPOINT_MAX) or "")
    # With its replicas renamed, the plugin's socket says so by itself.
    renamed = [f"{PLUGINS}/{name}" for name in sockets if name.removesuffix(".sock").endswith(".shared")]
    return Sharing(
        mps=(
            *_running(running, MPS),
            *(path for path in MPS_PIPES if files.follow(root, f"{path}/control").exists()),
        ),
        hami=(*_hami_files(root), *_running(running, HAMI_PROGRAMS)),
        device_plugin=(*(f"{PLUGINS}/{name}" for name in sockets), *_running(running, PLUGIN_PROGRAMS)),
        replicas=(*offered, *renamed),
    )


def preloaded(text: str, library: str) -> list[str]:
    """Return the entries of ld.so.preload that are this library."""
    words = [word for line in text.splitlines() for word in line.partition("#")[0].replace(":", " ").split()]
    return [word for word in words if word.rpartition("/")[2] == library]


def replicated(checkpoint: str) -> list[str]:
    """Return the resources of the kubelet's checkpoint whose devices are replicas. Nothing raises."""
    try:
        document = json.loads(checkpoint)
    except (ValueError, RecursionError):
        return []
    match document:
        case {"Data": {"RegisteredDevices": dict(resources)}}:
            return sorted(
                str(name)
                for name, devices in resources.items()
                if isinstance(devices, list) and any(REPLICA in str(device) for device in devices)
            )
        case _:
            return []


def _hami_files(root: Path) -> list[str]:
    entries = preloaded(files.text(root, PRELOAD) or "", HAMI_LIBRARY)
    found = [f"{PRELOAD}: {entry}" for entry in entries]
    return found + [
        f"{path}/{HAMI_LIBRARY}"
        for path in HAMI_FOLDERS
        if files.follow(root, f"{path}/{HAMI_LIBRARY}").exists()
    ]


def _running(running: tuple[Process, ...], programs: tuple[str, ...]) -> list[str]:
    return [f"{one.program} (process {one.pid})" for one in running if one.program in programs]
