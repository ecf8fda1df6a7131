# SPDX-License-Identifier: Apache-2.0
"""Replacing the kernel module's core: hot, while containers go on, or cold, by loading all modules again.

A cold upgrade leaves the node without an engine for a moment. The file MARK exists during it; when the
upgrade was killed, `finish` loads what is missing.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu import paths
from cgpu.client.tree import Tree
from cgpu.config import apply, effective
from cgpu.config import load as config
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.install import places
from cgpu.install.our_files import AT_LOAD
from cgpu.install.places import DKMS, DKMS_NAME
from cgpu.install.runner import Runner, must
from cgpu.install.steps.module import CORE, MODULE

MODULES = Path("/proc/modules")
MARK = Path(paths.UPGRADING)
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
    """The module that is loaded: its core's version, the containers that are registered, and reservations."""

    version: str
    containers: frozenset[tuple[int, str]]
    reserved: int = 0

    def names(self) -> set[str]:
        """Return the containers, each once."""
        return {name for _, name in self.containers}


def core_of(version: str) -> str:
    """Return the name of a version's core."""
    return CORE + version.replace(".", "_")


def running(tree: Tree) -> Running:
    """Return what the loaded module says. Raises CgpuError."""
    found = ((gpu.index, name) for gpu in tree.gpus() for name in tree.containers(gpu.index))
    reserved = sum(len(tree.reserved(gpu.index)) for gpu in tree.gpus())
    return Running(tree.read("version").strip(), frozenset(found), reserved)


def find(runner: Runner, version: str, *, whole: bool = False) -> None:
    """See that a version's core is installed for this kernel. whole: cgpu_km too. Raises CgpuError."""
    for name in (core_of(version), *([MODULE] if whole else [])):
        done = runner.run(("modinfo", "-F", "version", name))
        found = done.output.strip() if done.status == 0 else None
        if found == version:
            continue
        if Path(f"{places.SOURCES}/{DKMS_NAME}-{version}").exists():
            command = f"dkms install {DKMS_NAME}/{version}"
        else:
            command = "cgpu install --engine module"
        text = "is not installed" if found is None else f"version {found} is installed, and not {version},"
        raise CgpuError(f"{name}: {text} for kernel {os.uname().release}; install it with: {command}")


# --- while containers go on ---


def hot(runner: Runner, tree: Tree, before: Running, version: str) -> str:
    """Have a version's core take over; return what is left to do, or nothing.

    Raises CgpuError, and the old core goes on; InterfaceError where the new core needs another cgpu_km.
    """
    name, old = core_of(version), core_of(before.version)
    # cgpu_km takes the core that was loaded last: a core that an earlier upgrade has left must not be that.
    for other in sorted(_cores() - {name, old}):
        must(runner, ("rmmod", other))
    fresh = name not in _loaded()
    try:
        if fresh:
            _load_core(runner, name)
        _exchange(tree, name, version)
    except BaseException:
        if fresh and name in _loaded() and tree.read("version").strip() != version:
            runner.run(("rmmod", name))
        raise
    lost = before.containers - running(tree).containers
    # A container that has ended during the upgrade has no processes; the module removes what is left of it.
    gone = ", ".join(sorted(f"{gpu}/{one}" for gpu, one in lost))
    return (f"; containers ended meanwhile: {gone}" if gone else "") + _unload(runner, old)


def tidy(runner: Runner, version: str) -> str:
    """Unload cores that an interrupted upgrade has left; return what is left to do."""
    return "".join(_unload(runner, name) for name in sorted(_cores() - {core_of(version)}))


def _exchange(tree: Tree, name: str, version: str) -> None:
    if tree.read("version").strip() == version:
        return
    try:
        _ask_to_exchange(tree)
    except OSError as error:
        why = WHY.get(error.errno or 0, error.strerror or "it is refused")
        raise CgpuError(f"{name}: does not take over: {why}; the kernel's log may say more: dmesg") from error
    found = tree.read("version").strip()
    if found != version:
        raise CgpuError(f"{name}: does not take over: {core_of(found)} was loaded later and did")


def _ask_to_exchange(tree: Tree) -> None:
    # Tree.write would hide the errno, which decides the message.
    Path(tree.path, "upgrade").write_text("1\n")


def _load_core(runner: Runner, name: str) -> None:
    done = runner.run(("modprobe", name))
    if done.status == 0:
        return
    if "Protocol error" in done.last_line():
        raise InterfaceError(f"{name}: was made for another {MODULE} than the one that is loaded")
    raise CgpuError(f"{name}: cannot be loaded: {done.last_line()}; see: dmesg")


def _unload(runner: Runner, old: str) -> str:
    until = time.monotonic() + UNLOAD_S
    while old in _loaded():
        if runner.run(("rmmod", old)).status == 0:
            break
        if time.monotonic() > until:
            return f"; calls that began in {old} have not ended; unload it later: rmmod {old}"
        time.sleep(POLL_S)
    return ""


# --- when no container is registered ---


def cold(runner: Runner, before: Running, version: str, wanted: Effective) -> None:
    """Unload all modules, load them again, and put the configuration in force. No container is registered.

    Raises CgpuError; the old module is loaded again then, where its files exist.
    """
    find(runner, version, whole=True)
    if wanted.tree not in (None, paths.TREE_MODULE):
        raise CgpuError(f"tree: {wanted.tree}: expected {paths.TREE_MODULE} or null; see: cgpu config check")
    given = [f"{key}={Path(paths.PARAMETERS, key).read_text().strip()}" for key in AT_LOAD]
    MARK.touch(mode=0o600)
    try:
        _unload_all(runner)
    except CgpuError as error:
        tree = module_tree()
        # A container that was registered in spite of the drain mark holds the core in use.
        on = tree is not None and tree.read("version").strip() == before.version
        raise CgpuError(f"{error}; {_go_on(before) if on else _go_back(runner, before, given)}") from error
    try:
        _load(runner, version, wanted)
    except CgpuError as error:
        raise CgpuError(f"{error}; {_go_back(runner, before, given)}") from error
    MARK.unlink()


def finish(runner: Runner, version: str, say: Callable[[str], None]) -> None:
    """Load what a killed cold upgrade has left unloaded. Raises CgpuError; another attempt may do it."""
    if not MARK.exists():
        return
    say("an interrupted cold upgrade of the module: goes on with it")
    wanted = config.load(paths.CONFIG, required=False)
    if module_tree() is None:
        find(runner, version, whole=True)
        # Old modules that are still loaded may not fit the new ones.
        _unload_all(runner)
        _load(runner, version, wanted)
    elif not effective.is_configured():
        apply.apply(wanted)
    MARK.unlink()


def _unload_all(runner: Runner) -> None:
    for name in (*sorted(_cores()), MODULE):
        until = time.monotonic() + UNLOAD_S
        while name in _loaded():
            done = runner.run(("rmmod", name))
            if done.status != 0 and time.monotonic() > until:
                raise CgpuError(f"{name}: cannot be unloaded: {done.last_line()}")
            if done.status != 0:
                time.sleep(POLL_S)


def _load(runner: Runner, version: str, wanted: Effective) -> None:
    # Parameters that can be given at load only: modprobe's settings may be older than the configuration.
    given = [f"{key}={int(getattr(wanted, key))}" for key in AT_LOAD]
    for words in ((MODULE, *given), (core_of(version),)):
        done = runner.run(("modprobe", *words))
        if done.status != 0:
            raise CgpuError(f"{words[0]}: cannot be loaded: {done.last_line()}; see: dmesg")
    apply.apply(wanted)


def _go_on(before: Running) -> str:
    MARK.unlink()
    return f"core {before.version} goes on"


def _go_back(runner: Runner, before: Running, given: Sequence[str]) -> str:
    """Load the old module again, from the files that dkms keeps of it; return the outcome in words."""
    uname = os.uname()
    kept = Path(DKMS) / before.version / uname.release / uname.machine / "module"
    try:
        _unload_all(runner)
        for name, words in ((MODULE, given), (core_of(before.version), ())):
            file = next(iter(sorted(kept.glob(f"{name}.ko*"))), None)
            must(runner, ("insmod", str(file), *words) if file else ("modprobe", name, *words))
        MARK.unlink()
        apply.apply(config.load(paths.CONFIG, required=False))
    except CgpuError as error:
        if MARK.exists():
            return f"no engine is loaded now ({error}): correct it, then: cgpu doctor --fix"
        return f"core {before.version} runs again, without the configuration: {error}"
    return f"core {before.version} runs again"


def _cores() -> set[str]:
    return {name for name in _loaded() if name.startswith(CORE)}


def _loaded() -> set[str]:
    try:
        return {line.split(" ", 1)[0] for line in MODULES.read_text().splitlines()}
    except FileNotFoundError:
        return set()  # a kernel that loads none


def module_tree() -> Tree | None:
    """Return the module's tree; None when it is not loaded."""
    return Tree(paths.TREE_MODULE) if paths.is_module_loaded() else None
