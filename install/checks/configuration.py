# SPDX-License-Identifier: Apache-2.0
"""The configuration: whether it can be read, and whether it is what the engine goes by."""

from __future__ import annotations

from cgpu import paths
from cgpu.config.apply import GPU_KEYS, ROOT_KEYS
from cgpu.config.effective import DEFAULTS, Effective
from cgpu.install.checks.finding import Finding, ok, problem, skipped
from cgpu.install.node.report import NodeReport

# Keys whose value cgpud's command line may override.
OVERRIDDEN = ("tree",)
# Keys that a GPU starts with; later its entry in the tree has the value.
FIRST = (*ROOT_KEYS, *GPU_KEYS)
# Keys that take effect only when cgpud is restarted.
AT_START = ("tree", "memory_backend", "nvml_library", "workers")


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
