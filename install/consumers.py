# SPDX-License-Identifier: Apache-2.0
"""Containers with the runtime cgpu, and what becomes of them when their engine loses the runtime.

Engines are asked, with a time limit. The answer is only printed, but for running containers of podman: podman
cannot stop them without the runtime, so they stop an uninstallation. A silent engine stops nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgpu.errors import CgpuError, one_line
from cgpu.install.node.facts import files
from cgpu.install.node.facts.settings import NAME
from cgpu.install.places import LAUNCHER
from cgpu.install.transaction.runner import Runner

TIMEOUT_S = 10.0
AT_ONCE = 200  # containers in one question
NAMED = 20  # in a line
# What each prints of a container: runtime, bar, name.
FORMATS = {"docker": "{{.HostConfig.Runtime}}|{{.Name}}", "podman": "{{.OCIRuntime}}|{{.Name}}"}
# What happens to them, and the command that helps.
ADVICE = {
    "docker": "they run on, and cannot be started again; to remove them, now or later: docker rm -f {names}",
    "podman": "they cannot be started again; to remove them, now or later: podman rm {names}",
    "containerd": (
        "they run on, and pods of them get no further container, after a crash too; to remove a pod: kubectl "
        "delete pod, or crictl rmp -f"
    ),
}
KEEPS = "the package has to stay as long as these: the engines call its runtime for exec, stop and rm"
TASKS = "/run/containerd/io.containerd.runtime.v2.task"
BY_DOCKER = "moby"  # its namespace in containerd; docker is asked itself
SPEC_MAX = 1 << 20
POD = ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name")


def lines(root: Path, runner: Runner, engines: Sequence[str]) -> Iterator[str]:
    """Yield a line for each engine that has such containers, and one for each that does not answer."""
    found = False
    for engine in engines:
        if engine not in ADVICE:
            continue
        try:
            names = _of_containerd(root) if engine == "containerd" else _asked(engine, runner)
        except (CgpuError, OSError) as error:
            yield f"warning: {engine} does not say which containers have the runtime {NAME} ({error})"
            continue
        if names:
            found = True
            advice = ADVICE[engine].format(names=shown(names, " "))
            yield f"warning: {engine}: {shown(names, ', ')} with the runtime {NAME}: {advice}"
    if found:
        yield f"warning: {KEEPS}"


def stuck(runner: Runner, engines: Sequence[str]) -> list[str]:
    """Return containers that run, and which their engine could not stop without the runtime."""
    with contextlib.suppress(CgpuError, OSError):
        return _asked("podman", runner, "--filter=status=running") if "podman" in engines else []
    return []


def _asked(engine: str, runner: Runner, which: str = "--all") -> list[str]:
    """Return the containers that an engine knows, also those that do not run. Raises CgpuError."""
    listed = runner.run((engine, "ps", which, "--quiet"), TIMEOUT_S)
    if listed.status != 0:
        raise CgpuError(listed.last_line())
    # The engine's own warnings are between them.
    identities = [line for line in listed.output.splitlines() if line.isalnum()]
    names = set()
    for first in range(0, len(identities), AT_ONCE):
        some = identities[first : first + AT_ONCE]
        # The status only says whether all of them still exist; the output is used in any case.
        said = runner.run((engine, "container", "inspect", "--format", FORMATS[engine], *some), TIMEOUT_S)
        for line in said.output.splitlines():
            runtime, bar, name = line.partition("|")
            if bar and is_ours(runtime):
                names.add(name.strip().removeprefix("/"))
    return sorted(names)


def _of_containerd(root: Path) -> list[str]:
    """Return pods and containers whose task has our runtime; its shim writes that beside the bundle."""
    names = set()
    for space in files.names(root, TASKS):
        for identity in files.names(root, f"{TASKS}/{space}") if space != BY_DOCKER else ():
            folder = f"{TASKS}/{space}/{identity}"
            if is_ours((files.text(root, f"{folder}/runtime") or "").strip()):
                names.add(_pod(files.text(root, f"{folder}/config.json", SPEC_MAX)) or f"{space}/{identity}")
    return sorted(names)


def _pod(spec: str | None) -> str | None:
    """Return the namespace and name of a container's pod, None for one that is in none."""
    try:
        notes = json.loads(spec or "null").get("annotations")
        return "/".join(str(notes[key]) for key in POD)
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        return None


def is_ours(runtime: str) -> bool:
    """Return whether an engine's word for a runtime means ours: the name, or the path."""
    return runtime == NAME or runtime.rpartition("/")[2] == LAUNCHER.name


def shown(names: Sequence[str], between: str) -> str:
    """Return the first names for a line."""
    more = ["..."] if len(names) > NAMED else []
    return between.join([*(one_line(name) for name in names[:NAMED]), *more])
