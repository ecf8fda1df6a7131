# SPDX-License-Identifier: Apache-2.0
"""The configuration: its file, what of it is in force, and whether it closes the node."""

from __future__ import annotations

from cgpu import paths
from cgpu.config.apply import GPU_KEYS, ROOT_KEYS
from cgpu.config.effective import DEFAULTS, Effective
from cgpu.install.checks.finding import Finding, ok, problem, skipped, warning
from cgpu.install.node.report import NodeReport
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.programs import numbers

# Keys whose value cgpud's command line may override.
OVERRIDDEN = ("tree",)
# Keys that a GPU starts with; later its entry in the tree has the value.
FIRST = (*ROOT_KEYS, *GPU_KEYS)
# Keys that take effect only when cgpud is restarted.
AT_START = ("tree", "workers")
SHARED_NODE = "shared-node"
CLOSE = "cgpu config set shared_node true --apply"


def valid(now: NodeReport) -> list[Finding]:
    """Whether the file fits its schema."""
    if now.config_problem is not None:
        return problem("configuration", now.config_problem, "cgpu config check; cgpu config explain KEY")
    if now.config_file is not None:
        return ok("configuration", f"{now.config_file} is valid")
    return ok("configuration", f"{paths.CONFIG} is not there: the defaults hold")


def in_force(now: NodeReport) -> list[Finding]:
    """Whether what the file says is what hook, runtime and engine go by."""
    name = "configuration-in-force"
    if now.wanted is None:
        return skipped(name, "the configuration cannot be read")
    if now.in_force_problem is not None:
        return problem(name, now.in_force_problem, apply_command(now))
    if now.config_file is None and (now.in_force is None or not now.configured):
        return ok(name, "the defaults hold")
    if now.in_force is None:
        text = f"{now.config_file}: no engine has read it since this machine started"
        return problem(name, text, apply_command(now))
    if not now.configured:
        return problem(name, f"{now.config_file}: not applied since cgpu_km was loaded", "cgpu-config-apply")
    return _compared(now, differences(now.wanted, now.in_force))


def _compared(now: NodeReport, changed: list[str]) -> list[Finding]:
    name = "configuration-in-force"
    if changed:
        file = now.config_file or paths.CONFIG
        text = f"{file}: changed and not in force: {', '.join(changed)}"
        return problem(name, text, apply_command(now, changed))
    return ok(name, "what the file says is in force")


def differences(wanted: Effective, found: Effective) -> list[str]:
    """Return the keys of which another value is in force."""
    return [
        key
        for key in DEFAULTS
        if getattr(wanted, key) != getattr(found, key)
        and not (key in OVERRIDDEN and getattr(wanted, key) is None)
    ]


def apply_command(now: NodeReport, changed: list[str] | None = None) -> str:
    """Return the command that puts the file in force."""
    if now.node.ours.engine is None:
        return paths.start_command(now.node.ours.tree)
    again = any(key in AT_START for key in changed or ())
    if not again and now.kind == "daemon" and any(key in FIRST for key in changed or ()):
        return "cgpu doctor --fix"
    return paths.config_command("restart" if again else "reload")


def closed(now: NodeReport) -> list[Finding]:
    """Whether images and users get slices only, on a node that is shared."""
    config = now.in_force if now.in_force is not None and now.configured else now.wanted
    if config is None:
        return skipped(SHARED_NODE, "the configuration cannot be read")
    ways = [*_ways(config), *_copied(now, config)]
    if not ways:
        return ok(SHARED_NODE, "each container that has a GPU has a slice of it")
    if config.shared_node:
        text = f"shared_node is true, and yet {'; '.join(ways)}"
        return warning(SHARED_NODE, text, "cgpu config explain shared_node")
    text = f"open, as for one owner: {'; '.join(ways)}"
    return warning(SHARED_NODE, text, f"if people share this node who do not trust each other: {CLOSE}")


def _ways(config: Effective) -> list[str]:
    """Return the ways past a slice that the configuration leaves."""
    whole = not config.default_memsize and not config.shared_node
    found = {
        "an image's environment asks for its slice (allow_environment)": config.allow_environment,
        "pods have slices that Kubernetes does not count (pod_variables)": config.pod_variables,
        "claims of pods give themselves high priority (allow_claim_priority)": config.allow_claim_priority,
        "a container can switch slicing off (allow_disable)": config.allow_disable,
        "a container that names a GPU and no amount has it whole (default_memsize: 0)": whole,
        "privileged containers have GPUs whole (allow_privileged)": config.allow_privileged,
        "limits do not hold (enforce: false)": not config.enforce,
    }
    return [way for way, is_open in found.items() if is_open]


def _copied(now: NodeReport, config: Effective) -> list[str]:
    if config.trust_annotations != "always":
        return []
    what = "copies annotations of images (trust_annotations)"
    return [
        f"{one.name} {one.version or 'of a version not known'} {what}"
        for one in now.node.software.engines
        if ENGINES[one.name].copies_image_annotations(numbers(one.version))
    ]
