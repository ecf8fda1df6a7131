# SPDX-License-Identifier: Apache-2.0
"""What the daemon was asked to do, and what of it the core has to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cgpu import __version__, paths
from cgpu.kmod.daemon.engine import Settings
from cgpu.kmod.daemon.places import Places

if TYPE_CHECKING:
    from cgpu.config.effective import Effective

NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the daemon was asked to do."""

    simulate: str | None = None
    tree: str | None = None
    config: Path = Path(paths.CONFIG)
    config_required: bool = False
    places: Places = field(default_factory=Places)
    transient: bool = False  # ends when no run and no container needs it
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
    if arguments.transient:
        out += ["--transient"]
    if arguments.foreground:
        out += ["--foreground"]
    return out


def settings_of(config: Effective) -> Settings:
    """Return what the core needs of a configuration."""
    return Settings(
        version=__version__,
        enforce=config.enforce,
        allow_zero_weight=config.allow_zero_weight,
        policy=config.policy,
        max_inst=config.max_inst,
        prio_ratio=config.prio_ratio,
        default_memsize=config.default_memsize,
        context_memory=config.context_memory,
        drift_tolerance=config.drift_tolerance,
        drift_refuse=config.drift_reaction == "refuse",
        slice_ns=config.slice_us * NS_PER_US,
    )
