# SPDX-License-Identifier: Apache-2.0
"""Others on this machine that share GPUs: MPS, HAMi, a Kubernetes device plugin with time-slicing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from cgpu.install.node.facts import files
from cgpu.install.node.facts.programs import Process

MPS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
MPS_PIPES = ("/tmp/nvidia-mps", "/run/nvidia/mps")
PRELOAD = "/etc/ld.so.preload"
HAMI_LIBRARY = "libvgpu.so"
HAMI_FOLDERS = ("/usr/local/vgpu",)
HAMI_PROGRAMS = ("vGPUmonitor", "hami-device-plugin", "vgpu-device-plugin")
PLUGINS = "/var/lib/kubelet/device-plugins"
CHECKPOINT = f"{PLUGINS}/kubelet_internal_checkpoint"
PLUGIN_PROGRAMS = ("nvidia-device-plugin", "mps-control-daemon")
REPLICA = "::"  # the vendor's device plugin numbers the replicas of one GPU behind this
CHECKPOINT_MAX = 1 << 24


@dataclass(frozen=True, slots=True)
class Sharing:
    """What was found of each, in words for a message: paths, process names with their numbers."""

    mps: tuple[str, ...]
    hami: tuple[str, ...]
    device_plugin: tuple[str, ...]
    """Sockets and processes of the vendor's device plugin: by itself it gives GPUs out whole."""
    replicas: tuple[str, ...]
    """Resources whose GPUs the kubelet was offered several times."""


def gather(root: Path, running: tuple[Process, ...]) -> Sharing:
    """Read the facts below a root."""
    sockets = [
        name for name in files.names(root, PLUGINS) if name.startswith("nvidia") and name.endswith(".sock")
    ]
    offered = replicated(files.text(root, CHECKPOINT, CHECKPOINT_MAX) or "")
    # With its replicas renamed, the plugin's socket says so by itself.
    renamed = [f"{PLUGINS}/{name}" for name in sockets if name.removesuffix(".sock").endswith(".shared")]
    return Sharing(
        mps=(*_running(running, MPS), *(path for path in MPS_PIPES if _exists(root, f"{path}/control"))),
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
        f"{path}/{HAMI_LIBRARY}" for path in HAMI_FOLDERS if _exists(root, f"{path}/{HAMI_LIBRARY}")
    ]


def _exists(root: Path, path: str) -> bool:
    return files.follow(root, path).exists()


def _running(running: tuple[Process, ...], programs: tuple[str, ...]) -> list[str]:
    return [f"{one.program} (process {one.pid})" for one in running if one.program in programs]
