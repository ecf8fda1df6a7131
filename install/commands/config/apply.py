# SPDX-License-Identifier: Apache-2.0
"""Put the configuration in force: by whichever engine runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cgpu import paths
from cgpu.client.tree import Tree
from cgpu.config import apply as module
from cgpu.config import effective
from cgpu.config import load as config
from cgpu.errors import CgpuError
from cgpu.install.checks.configuration import AT_START, FIRST
from cgpu.kmod.daemon import control

RELOAD_S = 10.0


def command(key: str) -> str:
    """Return the command after which a changed key is in force."""
    if key in FIRST and not paths.is_module_loaded():
        return f"cgpu config set {key} VALUE --apply"
    return paths.config_command("restart" if key in AT_START else "reload")


def apply(keys: Sequence[str]) -> str:
    """Have the running engine take the file; return what was done. Raises CgpuError.

    keys: those that were changed. What the tree has nodes for counts for the GPUs that there are, too.
    """
    if paths.is_module_loaded():
        module.apply(config.load(paths.CONFIG))
        return "in force in cgpu_km"
    status = _status()
    if status is None:
        start = paths.start_command(paths.tree(effective.load(paths.EFFECTIVE).tree))
        raise CgpuError(f"no engine is running; what the file says holds from its start on: {start}")
    reload()
    _write(Tree(str(status["tree"])), keys)
    return "in force in cgpud"


def check_file() -> None:
    """Raise CgpuError when cgpud goes by another file than the usual one."""
    file = str((_status() or {}).get("config", paths.CONFIG))
    if file != paths.CONFIG:
        raise CgpuError(f"cgpud was started with --config {file}: it does not read {paths.CONFIG}")


def _status() -> dict[str, Any] | None:
    return control.ask(paths.CONTROL_SOCKET, {"command": "status"}, RELOAD_S)


def reload() -> None:
    """Have cgpud read its file, whichever that is. Raises CgpuError."""
    answer = control.ask(paths.CONTROL_SOCKET, {"command": "reload"}, RELOAD_S)
    if answer is None or not answer.get("ok"):
        raise CgpuError(str((answer or {}).get("error", "cgpud does not answer; see its log")))


def _write(tree: Tree, keys: Sequence[str]) -> None:
    """Give the GPUs that there are the changed settings: a reload counts for those that come."""
    now = effective.load(paths.EFFECTIVE)
    for key, node in module.nodes(tree, keys):
        value = str(getattr(now, key))
        if tree.read(*node) != value:
            tree.write(value, *node)
