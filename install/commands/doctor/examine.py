# SPDX-License-Identifier: Apache-2.0
"""All checks of a node that OpenCGPU is on."""

from __future__ import annotations

from collections.abc import Callable

from cgpu.errors import one_line
from cgpu.install.checks import (
    Wish,
    closed,
    configuration,
    engine,
    gpus,
    module,
    places,
    preflight,
    runtime,
    settings,
)
from cgpu.install.checks.finding import Finding, problem
from cgpu.install.node.report import Situation

Check = Callable[[Situation], list[Finding]]

CHECKS: tuple[Check, ...] = (
    engine.running,
    engine.versions,
    engine.enforcing,
    engine.driver,
    engine.tree,
    engine.listener,
    engine.descriptor_store,
    engine.limits,
    engine.start_at_boot,
    configuration.valid,
    configuration.in_force,
    closed.closed,
    places.permissions,
    places.room,
    places.leftovers,
    places.draining,
    lambda _: runtime.interpreter(),
    lambda _: runtime.hook(),
    lambda _: runtime.launcher(),
    lambda _: runtime.ownership(),
    settings.registered,
    settings.default,
    gpus.containers,
    gpus.drift,
    gpus.time_division,
    gpus.mig,
    module.built,
    module.dkms,
)


def examine(now: Situation) -> list[Finding]:
    """Return every finding: first of the machine, then of what OpenCGPU is on it."""
    allowed = now.wanted is not None and now.wanted.allow_unknown_driver
    found = preflight(now.node, Wish(now.kind, (), allowed))
    if now.status is not None and now.status.get("simulate"):
        text = f"simulated cards: {now.status['simulate']}"
        found = [Finding("driver", "ok", text) if one.name == "driver" else one for one in found]
    for check in CHECKS:
        found += _run(check, now)
    return found


def _run(check: Check, now: Situation) -> list[Finding]:
    try:
        return check(now)
    except Exception as error:  # noqa: BLE001, one check that fails must not hide what the others find
        name = getattr(check, "__name__", "")
        text = one_line(f"the check {name} failed itself: {type(error).__name__}: {error}")
        return problem("check-failed", text, "cgpu support-bundle, and report it")
