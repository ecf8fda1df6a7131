# SPDX-License-Identifier: Apache-2.0
"""Whether a container can get more of a GPU than the node's administrator has given it."""

from __future__ import annotations

from cgpu.config.effective import Effective
from cgpu.install.checks.finding import Finding, ok, skipped, warning
from cgpu.install.node.facts.programs import numbers
from cgpu.install.node.report import NodeReport
from cgpu.runtime_config.engines.registry import ENGINES

NAME = "shared-node"
CLOSE = "cgpu config set shared_node true --apply"


def closed(now: NodeReport) -> list[Finding]:
    """Whether images and users get slices only, on a node that is shared."""
    config = now.in_force if now.in_force is not None and now.configured else now.wanted
    if config is None:
        return skipped(NAME, "the configuration cannot be read")
    ways = [*_ways(config), *_copied(now, config)]
    if not ways:
        return ok(NAME, "whoever has a GPU here has a slice of it")
    if config.shared_node:
        text = f"shared_node is true, and yet {'; '.join(ways)}"
        return warning(NAME, text, "cgpu config explain shared_node")
    text = f"open, as for one owner: {'; '.join(ways)}"
    return warning(NAME, text, f"where people share this node who do not trust each other: {CLOSE}")


def _ways(config: Effective) -> list[str]:
    """Return the ways past a slice that the configuration leaves."""
    whole = not config.default_memsize and not config.shared_node
    found = {
        "an image's environment asks for its slice (allow_environment)": config.allow_environment,
        "a container can switch slicing off (allow_disable)": config.allow_disable,
        "who names a GPU and no amount has it whole (default_memsize: 0)": whole,
        "privileged containers have GPUs whole (allow_privileged)": config.allow_privileged,
        "limits do not hold (enforce: false)": not config.enforce,
    }
    return [way for way, is_open in found.items() if is_open]


def _copied(now: NodeReport, config: Effective) -> list[str]:
    if config.trust_annotations != "always":
        return []
    engines = [
        one
        for one in now.node.software.engines
        if ENGINES[one.name].copies_image_annotations(numbers(one.version))
    ]
    which = [f"{one.name} {one.version or 'of a version not known'}" for one in engines]
    return [f"{one} copies annotations of images (trust_annotations)" for one in which]
