# SPDX-License-Identifier: Apache-2.0
"""The parts of OpenCGPU that are on this machine, and the engine that runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from cgpu import __version__, paths, process_identity
from cgpu.client.tree import DAEMON, MODULE, Tree
from cgpu.client.witness import word_of
from cgpu.errors import CgpuError
from cgpu.install.node.facts import bounded, files
from cgpu.install.node.facts.programs import Process
from cgpu.install.places import RECORD
from cgpu.kmod.daemon.tree.mounts import mounted
from cgpu.node_files import below

TREE_S = 5.0
MODULE_FILE = re.compile(r"(?:.*/)?cgpu_km\.ko(?:\.\w+)?")
MODULE_FOLDERS = ("updates/dkms", "extra", "updates", "extra/opencgpu")


@dataclass(frozen=True, slots=True)
class Ours:
    """The engine by what its tree says, and what is installed.

    engine: cgpu_km or cgpud, None where none answers; then problem says why, where something is there.
    """

    commands: str
    engine: str | None
    version: str | None
    enforces: bool
    counts_pages: bool
    witness: str
    """The state of cgpud's witness of pages, a word; empty where cgpud needs none."""
    provisional: bool
    """Whether it serves a driver by the layouts of an older one."""
    by_row: bool
    """Whether it serves a driver by a signed file of the node."""
    tree: str
    problem: str | None
    module_loaded: bool
    module_kernels: tuple[str, ...]
    """Kernels that cgpu_km is installed for."""
    daemon_running: bool
    unit: Path | None
    configuration: bool
    record: Path | None
    """Folder of what `cgpu install` has done, where there is one with something in it."""


def gather(root: Path, running: tuple[Process, ...]) -> Ours:
    """Read the facts below a root."""
    tree = _tree(root)
    words, problem = _ask_engine(root, tree)
    return Ours(
        commands=__version__,
        engine=words[0] if words else None,
        version=words[1] if len(words) > 1 else None,
        enforces="enforce=off" not in words,
        counts_pages="pages=counted" in words,
        witness=word_of(words),
        provisional="driver=provisional" in words,
        by_row="driver=row" in words,
        tree=tree,
        problem=problem,
        module_loaded=files.exists(root, "/sys/module/cgpu_km") or tree == paths.TREE_MODULE,
        module_kernels=tuple(name for name in files.names(root, paths.MODULES) if _has_module(root, name)),
        daemon_running=_daemon_runs(root, running),
        unit=next((Path(unit) for unit in paths.UNITS if files.exists(root, unit)), None),
        configuration=files.exists(root, paths.CONFIG),
        record=Path(RECORD) if files.names(root, RECORD) else None,
    )


def daemon_tree(root: Path) -> str:
    """Return the path that cgpud was last started with, its default where that is not known."""
    try:
        document = json.loads(files.text(root, paths.EFFECTIVE) or "{}")
    except (ValueError, RecursionError):
        return paths.TREE_DAEMON
    named = document.get("tree") if isinstance(document, dict) else None
    is_path = isinstance(named, str) and named.startswith("/") and "\0" not in named
    return str(named) if is_path else paths.TREE_DAEMON


def possible_trees(root: Path) -> tuple[str, ...]:
    """Return every path at which an engine of this machine may have its tree, each once."""
    return tuple(dict.fromkeys((*paths.TREES, daemon_tree(root))))


def _tree(root: Path) -> str:
    """Return the tree's path: the module's where it is loaded, else the one in force for cgpud."""
    if files.exists(root, f"{paths.TREE_MODULE}/version"):
        return paths.TREE_MODULE
    return daemon_tree(root)


def _ask_engine(root: Path, tree: str) -> tuple[list[str], str | None]:
    """Return the words of the node `engine`, and why there are none where a tree is there."""
    if str(root) == "/" and tree != paths.TREE_MODULE and not mounted(tree):
        return [], None
    at = Tree(str(below(root, tree)))
    if str(root) != "/" and not files.exists(root, f"{tree}/engine"):
        return [], None
    try:
        words = str(bounded.ask(lambda: at.read("engine"), tree, TREE_S)).split()
    except CgpuError as error:
        return [], str(error)
    if not words or words[0] not in (DAEMON, MODULE):
        return [], f"{tree}/engine: is not an engine's"
    return words, None


def _daemon_runs(root: Path, running: tuple[Process, ...]) -> bool:
    # Installed by pip, its process has the interpreter's name. The number may be another one's by now.
    named = process_identity.parse(files.content(root, paths.STARTED) or b"")
    is_meant = named.lives(below(root, "/proc"))
    return any(
        one.program == DAEMON or (is_meant and one.pid == named.pid and one.program.startswith("python"))
        for one in running
    )


def _has_module(root: Path, release: str) -> bool:
    listed = files.text(root, f"{paths.MODULES}/{release}/modules.dep", 1 << 24) or ""
    if any(MODULE_FILE.fullmatch(line.partition(":")[0]) for line in listed.splitlines()):
        return True
    return any(
        MODULE_FILE.fullmatch(name)
        for folder in MODULE_FOLDERS
        for name in files.names(root, f"{paths.MODULES}/{release}/{folder}")
    )
