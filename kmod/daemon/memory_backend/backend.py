# SPDX-License-Identifier: Apache-2.0
"""Who limits memory on this node: the core, or the driver with limits of its own."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.memory_backend.nvml import Nvml, library_at

log = logging.getLogger(__name__)

CORE, DRIVER, AUTO = "core", "driver", "auto"
FIRST_DRIVER = 615
CGROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class Node:
    """What the choice depends on. library: where the configuration says that NVIDIA's library is."""

    driver: str
    uuids: tuple[str, ...]
    simulated: bool
    library: str | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The backend, why, and for the driver's the library."""

    name: str
    why: str
    nvml: Nvml | None = None


def choose(asked: str, before: str | None, node: Node) -> Chosen:
    """Choose. before: the backend that registered containers have, or None without any.

    It does not change under containers: what one backend has counted the other does not know. Raises
    CgpuError when the driver's is needed and cannot be had.
    """
    wanted = before or asked
    if before is not None and asked not in (AUTO, before):
        log.warning("memory_backend: %s: not while containers are registered; it stays %s", asked, before)
    if wanted == CORE:
        return Chosen(CORE, "asked for" if before is None else "containers are registered that have it")
    try:
        nvml = open_driver(node)
    except CgpuError as error:
        if wanted == AUTO:
            return Chosen(CORE, str(error))
        raise CgpuError(f"memory_backend: driver: {error}") from error
    return Chosen(DRIVER, f"driver {node.driver} limits on every card", nvml)


def open_driver(node: Node) -> Nvml:
    """Return the library when the driver can limit cgroups on all cards. Raises CgpuError with the reason."""
    if not is_new_enough(node.driver):
        raise CgpuError(f"driver {node.driver} is older than {FIRST_DRIVER}")
    if node.simulated and node.library is None:
        raise CgpuError("the cards are simulated")
    check_unified(Path("/proc/self/mountinfo").read_text())
    nvml = Nvml(library_at(node.library))
    version = nvml.driver_version()
    if version != node.driver:
        raise CgpuError(f"NVML speaks to driver {version}, not to {node.driver}")
    for uuid in node.uuids:
        if nvml.has_mig(uuid):
            raise CgpuError(f"{uuid}: is in MIG mode, where the driver limits no cgroup")
    _try_out(nvml, node.uuids)
    return nvml


def is_new_enough(version: str) -> bool:
    """Tell whether a driver of this version may have limits of its own."""
    major = version.partition(".")[0]
    return major.isascii() and major.isdecimal() and int(major) >= FIRST_DRIVER


def check_unified(mountinfo: str) -> None:
    """Raise CgpuError unless cgroup version 2 alone is mounted, as a whole, where the driver expects it."""
    found = None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) > 4 and fields[4] == CGROUPS:
            found = (right.split(" ", 1)[0], fields[3])
    if found is None or found[0] != "cgroup2":
        raise CgpuError(f"{CGROUPS}: is no cgroup version 2")
    if found[1] != "/":
        raise CgpuError(f"{CGROUPS}: shows only {found[1]} of the cgroups")


def _try_out(nvml: Nvml, uuids: tuple[str, ...]) -> None:
    # Only a limit that was set can be read: that of a group which never had one is "not supported", too.
    directory = f"{CGROUPS}/cgpud-probe-{os.getpid()}"
    try:
        os.mkdir(directory, 0o700)
    except OSError as error:
        raise CgpuError(f"{directory}: cannot be made: {error.strerror}") from error
    try:
        for uuid in uuids:
            nvml.set_hard(uuid, directory, None)
            if nvml.limits(uuid, directory).hard is not None:
                raise CgpuError(f"{uuid}: the driver does not keep the limits of {directory}")
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(directory)
