# SPDX-License-Identifier: Apache-2.0
"""The daemon's arguments, from its command line and the node's configuration."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.config import refused
from cgpu.errors import CgpuError
from cgpu.kmod.daemon.places import Places
from cgpu.runtime_config.oci_runtime import lowlevel

if TYPE_CHECKING:
    from cgpu.config.effective import Effective


@dataclass(frozen=True, slots=True)
class Arguments:
    """Options of the daemon's command line."""

    simulate: str | None = None
    tree: str | None = None
    config: Path = Path(paths.CONFIG)
    config_required: bool = False
    places: Places = field(default_factory=Places)
    foreground: bool = False  # logs to standard error


def worker_arguments(arguments: Arguments) -> list[str]:
    """Return the command line of the daemon itself."""
    out = ["--run", str(arguments.places.run)]
    if arguments.simulate is not None:
        out += ["--simulate", arguments.simulate]
    if arguments.tree is not None:
        out += ["--tree", arguments.tree]
    if arguments.config_required:
        out += ["--config", str(arguments.config)]
    if arguments.foreground:
        out += ["--foreground"]
    return out


def command_line(arguments: Arguments) -> str:
    """Return the command that a person types to start this daemon in the background."""
    words = worker_arguments(replace(arguments, foreground=False))
    if arguments.places.run == Path(paths.RUN):
        words = words[2:]
    return shlex.join(["cgpud", *words])


def read_config(arguments: Arguments) -> Effective:
    """Read the configuration; the command line's tree beats the file's. Raises CgpuError."""
    # Here, as its import takes longer than all others, and a daemon that is upgraded keeps calls waiting.
    from cgpu.config.load import load

    config = load(arguments.config, required=arguments.config_required)
    if arguments.tree is not None:
        config = config.replace(tree=arguments.tree)
    if config.tree == paths.TREE_MODULE:
        raise CgpuError(f"tree: {config.tree}: is the kernel module's; expected another path or null")
    return config


def check_config(arguments: Arguments) -> None:
    """Refuse to start with a wrong configuration, and let the runtime know why. Raises CgpuError."""
    try:
        read_config(arguments)
    except CgpuError as error:
        refused.note(str(arguments.config), str(error), str(arguments.places.refused))
        raise


def check_change(before: Effective, after: Effective) -> None:
    """Refuse changes that a running daemon cannot make. Raises CgpuError."""
    if (after.tree or paths.TREE_DAEMON) != (before.tree or paths.TREE_DAEMON):
        raise CgpuError(f"tree: changes only with a restart: {paths.daemon_command('restart')}")
    if after.low_level_runtime != before.low_level_runtime:
        lowlevel.check(after.low_level_runtime)


def check_module() -> None:
    """Refuse to be the engine beside the kernel module. Raises CgpuError."""
    if Path(paths.TREE_MODULE, "version").exists():
        raise CgpuError(
            f"{paths.TREE_MODULE}: the kernel module is loaded; unload it with: modprobe -r cgpu_km"
        )
