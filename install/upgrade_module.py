# SPDX-License-Identifier: Apache-2.0
"""Another core in the place of the kernel module's: while containers go on, or by loading all anew."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from cgpu import paths
from cgpu.errors import CgpuError, one_line
from cgpu.tree import Tree

MODULES = Path("/proc/modules")
MODULE = "cgpu_km"
CORE = "cgpu_core_"
TOOLS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
LOAD_S = 120.0
UNLOAD_S = 10.0  # for calls that are under way in the old core
POLL_S = 0.1
WHY = {
    errno.EBUSY: "a call of a container did not end in time; try again",
    errno.EPROTO: "it cannot read the state of the one in use, or does not know the driver that is loaded",
    errno.ENOMEM: "there is no memory for a second copy of the state",
    errno.ENOENT: "no other core is loaded",
}


class InterfaceError(CgpuError):
    """The new core was made for another cgpu_km."""


@dataclass(frozen=True, slots=True)
class Running:
    """The module that is loaded: its core's version, and the containers that are registered."""

    version: str
    containers: frozenset[tuple[int, str]]


def core_of(version: str) -> str:
    """Return the name of a version's core."""
    return CORE + version.replace(".", "_")


def running(tree: Tree) -> Running:
    """Return what the loaded module says. Raises CgpuError."""
    found = ((gpu.index, name) for gpu in tree.gpus() for name in tree.containers(gpu.index))
    return Running(tree.read("version").strip(), frozenset(found))


def find(version: str) -> None:
    """See that a version's core is installed for this kernel. Raises CgpuError."""
    name = core_of(version)
    done = _run("modinfo", "-n", name)
    if done.returncode != 0:
        raise CgpuError(
            f"{name}: is not installed for kernel {os.uname().release}; install it with: "
            f"dkms install opencgpu/{version}"
        )


def hot(tree: Tree, before: Running, version: str) -> str:
    """Have a version's core take over; return what is left to do, or nothing.

    Raises CgpuError: the one before goes on. InterfaceError: it needs another cgpu_km.
    """
    name, old = core_of(version), core_of(before.version)
    fresh = name not in _loaded()
    if fresh:
        _load(name)
    try:
        _exchange(tree, name, version)
    except CgpuError:
        if fresh:
            _run("rmmod", name)
        raise
    after = running(tree)
    if lost := before.containers - after.containers:
        # One that ended meanwhile has no processes; what is left of it is the module's own affair.
        gone = ", ".join(sorted(f"{gpu}/{one}" for gpu, one in lost))
        return f"; containers ended meanwhile: {gone}"
    return _unload(old)


def tidy(version: str) -> str:
    """Unload cores that an upgrade which did not come to its end has left; return what is left to do."""
    others = sorted(name for name in _loaded() if name.startswith(CORE) and name != core_of(version))
    return "".join(_unload(name) for name in others)


def cold(version: str) -> None:
    """Unload all and load it anew. Nobody is registered. Raises CgpuError."""
    cores = sorted(name for name in _loaded() if name.startswith(CORE))
    for name in (*cores, MODULE):
        done = _run("rmmod", name)
        if done.returncode != 0:
            _run("modprobe", MODULE)
            raise CgpuError(f"{name}: cannot be unloaded: {one_line(done.stderr.strip())}")
    for name in (MODULE, core_of(version)):
        done = _run("modprobe", name)
        if done.returncode != 0:
            for core in cores:
                _run("modprobe", core)
            raise CgpuError(f"{name}: cannot be loaded: {one_line(done.stderr.strip())}; see: dmesg")


def _exchange(tree: Tree, name: str, version: str) -> None:
    if tree.read("version").strip() != version:
        try:
            _ask_to_exchange(tree)
        except OSError as error:
            why = WHY.get(error.errno or 0, error.strerror or "it is refused")
            raise CgpuError(
                f"{name}: does not take over: {why}; the kernel's log may say more: dmesg"
            ) from error
    found = tree.read("version").strip()
    if found != version:
        raise CgpuError(
            f"{name}: does not take over: {core_of(found)} is newer and took over; unload it first"
        )


def _ask_to_exchange(tree: Tree) -> None:
    # Not by Tree.write: which errno it is decides what to say.
    Path(tree.path, "upgrade").write_text("1\n")


def _load(name: str) -> None:
    done = _run("modprobe", name)
    if done.returncode == 0:
        return
    if "Protocol error" in done.stderr:
        raise InterfaceError(f"{name}: was made for another {MODULE} than the one that is loaded")
    raise CgpuError(f"{name}: cannot be loaded: {one_line(done.stderr.strip())}; see: dmesg")


def _unload(old: str) -> str:
    until = time.monotonic() + UNLOAD_S
    while old in _loaded():
        if _run("rmmod", old).returncode == 0:
            break
        if time.monotonic() > until:
            return f"; calls that began in {old} have not ended; unload it later: rmmod {old}"
        time.sleep(POLL_S)
    return ""


def _loaded() -> set[str]:
    return {line.split(" ", 1)[0] for line in MODULES.read_text().splitlines()}


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=TOOLS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LOAD_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CgpuError(f"{command[0]}: {one_line(str(error))}") from error


def module_tree() -> Tree | None:
    """Return the module's tree; None when it is not loaded."""
    return Tree(paths.TREE_MODULE) if paths.is_module_loaded() else None
