# SPDX-License-Identifier: Apache-2.0
"""The node's configuration as the daemon takes it, and what of it changes only with a restart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.config.load import load
from cgpu.errors import CgpuError

if TYPE_CHECKING:
    from cgpu.config.effective import Effective
    from cgpu.kmod.daemon.arguments import Arguments

FIXED = ("memory_backend", "nvml_library")


def read(arguments: Arguments) -> Effective:
    """Read the configuration; the command line's tree beats the file's. Raises CgpuError."""
    config = load(arguments.config, required=arguments.config_required)
    if arguments.tree is not None:
        config = config.replace(tree=arguments.tree)
    if config.tree == paths.TREE_MODULE:
        raise CgpuError(f"tree: {config.tree}: is the kernel module's; expected another path or null")
    return config


def check_change(before: Effective, after: Effective) -> None:
    """Refuse what cannot change while the daemon runs. Raises CgpuError."""
    if (after.tree or paths.TREE_DAEMON) != (before.tree or paths.TREE_DAEMON):
        raise CgpuError(f"tree: changes only with a restart: {paths.daemon_command('restart')}")
    for key in FIXED:
        if getattr(after, key) != getattr(before, key):
            raise CgpuError(f"{key}: changes only with a restart: {paths.daemon_command('restart')}")


def check_module() -> None:
    """Refuse to be the engine beside the kernel module. Raises CgpuError."""
    if Path(paths.TREE_MODULE, "version").exists():
        raise CgpuError(
            f"{paths.TREE_MODULE}: the kernel module is loaded; unload it with: modprobe -r cgpu_km"
        )
