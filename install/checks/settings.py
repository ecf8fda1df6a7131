# SPDX-License-Identifier: Apache-2.0
"""The settings of the container engines: whether each finds our runtime."""

from __future__ import annotations

import filecmp
import os

from cgpu.install.checks.finding import Finding, ok, problem, skipped, warning
from cgpu.install.node.facts.settings import Entry
from cgpu.install.node.facts.software import Program
from cgpu.install.node.report import NodeReport
from cgpu.runtime_config.engines.containerd import CDI, HAS_CDI, KNOWS_CDI, PROGRAM
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER
from cgpu.runtime_config.programs import numbers

# Runtimes with a list of paths, not of names.
RUNTIMES = tuple(engine.name for engine in ENGINES.values() if engine.is_runtime)


def registered(now: NodeReport) -> list[Finding]:
    """One finding for each engine that is there."""
    names = [one.name for one in now.node.software.engines]
    names += [name for name in RUNTIMES if any(one.engine == name for one in now.settings)]
    if not names:
        return skipped("settings", "there is no container engine")
    return [finding for name in names for finding in _engine(name, now)]


def _engine(name: str, now: NodeReport) -> list[Finding]:
    check, install = f"settings-{name}", f"cgpu install --runtimes {name}"
    if name == PROGRAM and now.node.software.by_hand:
        install = now.node.software.by_hand
    entries = [one for one in now.settings if one.engine == name]
    for one in entries:
        if one.problem is not None:
            text = f"{one.file}: {one.problem}: {name} does not start with it"
            return problem(check, text, f"correct {one.file}")
    # The last file that names a runtime or a default overrides those before it.
    runtime = next((one for one in reversed(entries) if one.runtime is not None), None)
    default = next((one.default for one in reversed(entries) if one.default is not None), None)
    if runtime is not None and runtime.runtime is not None:
        return _defined(name, runtime.file, runtime.runtime, install)
    if default == NAME:
        text = f"the default runtime is {NAME}, which is not defined: {name} starts no container"
        return problem(check, text, install)
    if any(one.runtime is not None for one in now.settings):
        return skipped(check, f"{name} does not know the runtime {NAME}; others do", install)
    return warning(check, f"{name} does not know the runtime {NAME}", install)


def _defined(name: str, file: str, runtime: str, install: str) -> list[Finding]:
    check = f"settings-{name}"
    if not (os.path.isfile(runtime) and os.access(runtime, os.X_OK)):
        return problem(check, f"{file}: {runtime}: there is no such program", install)
    if not _is_ours(runtime):
        text = f"{file}: {runtime}: is not this release's {os.path.basename(LAUNCHER)}"
        return warning(check, text, install)
    return ok(check, f"{file}: {runtime}")


def _is_ours(path: str) -> bool:
    """Tell whether a program is our launcher, or a copy of it."""
    return not os.path.exists(LAUNCHER) or filecmp.cmp(path, LAUNCHER, shallow=False)


POD_DEVICES = "pod-devices"


def pod_devices(now: NodeReport) -> list[Finding]:
    """Whether containers of pods get what their claims were given: the kubelet says it by CDI devices."""
    if not now.node.software.kubelet:
        return skipped(POD_DEVICES, "no kubelet has had pods here")
    ours = {one.engine for one in now.settings if one.runtime is not None}
    here = [one for one in now.node.software.engines if one.name in ours and _is_containerd(one.name)]
    if not here:
        return skipped(POD_DEVICES, f"no containerd here knows the runtime {NAME}")
    return [finding for one in here for finding in _devices_by(one, now)]


def _is_containerd(name: str) -> bool:
    return ENGINES[name].program == PROGRAM


def _devices_by(containerd: Program, now: NodeReport) -> list[Finding]:
    """Whether one containerd, alone or brought by a node's software, gives pods their CDI devices."""
    name, engine = containerd.name, ENGINES[containerd.name]
    entries = [one for one in now.settings if one.engine == name]
    version = numbers(containerd.version)
    if not version:
        return skipped(POD_DEVICES, f"{containerd.path}: its version is not known")
    program = f"{'' if name == PROGRAM else f'{name}: '}containerd {containerd.version}"
    said = next((one for one in reversed(entries) if one.cdi is not None), None)
    on = said.cdi if said is not None else version >= HAS_CDI
    if on and version >= KNOWS_CDI:
        return ok(POD_DEVICES, f"{program} gives pods the devices of their claims")
    why, fix = f"{program} knows no CDI", "install a version with containerd 2.0 or newer"
    if version >= KNOWS_CDI:
        # Software of a node makes its file anew, with what lies in its folder.
        usual = said.file if said is not None else engine.path
        place = engine.folders[0] if engine.is_part and engine.folders else usual
        why = f"{program} has CDI off"
        fix = f"in {place}, in the table of CRI: {CDI} = true; {' '.join(engine.reload())}".rstrip("; ")
    text = f"{why}: containers of pods with a claim start without a GPU"
    # There pods can still ask by variables.
    variables = now.in_force is not None and now.in_force.pod_variables
    return warning(POD_DEVICES, text, fix) if variables else problem(POD_DEVICES, text, fix)


def default(now: NodeReport) -> list[Finding]:
    """Whether what docker and Kubernetes take by default is the same."""
    chosen = {one.engine: one.default == NAME for one in _with_default(now.settings)}
    if len(set(chosen.values())) > 1:
        ours = ", ".join(name for name, is_ours in chosen.items() if is_ours)
        others = ", ".join(name for name, is_ours in chosen.items() if not is_ours)
        text = f"{NAME} is the default runtime of {ours} and not of {others}"
        return warning("default-runtime", text, "cgpu install --default-runtime, or name the runtime")
    return ok(
        "default-runtime",
        f"{NAME} is the default" if True in chosen.values() else f"{NAME} is used where a container names it",
    )


def _with_default(entries: tuple[Entry, ...]) -> list[Entry]:
    """Return for each engine the entry that decides, of those with our runtime."""
    ours = {one.engine for one in entries if one.runtime is not None}
    last = {one.engine: one for one in entries if one.engine in ours and one.engine not in RUNTIMES}
    last |= {one.engine: one for one in entries if one.engine in ours and one.default is not None}
    return list(last.values())
