# SPDX-License-Identifier: Apache-2.0
"""The choice of container engines that get the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from cgpu import suggest
from cgpu.config.load import NOT_YAML
from cgpu.errors import CgpuError, show
from cgpu.install.node.facts import files, programs
from cgpu.install.steps.step import Context
from cgpu.runtime_config.engines.registry import ENGINES

#: in --runtimes: the engine by which the node's kubelet runs pods
KUBELET = "kubelet"
KUBERNETES = ("kubernetes", "k8s")
ENDPOINT = ("--container-runtime-endpoint",)
CONFIG, DROP_INS = ("--config",), ("--config-dir",)


def choose(context: Context, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that --runtimes gives, all engines that are here without it. Raises CgpuError."""
    if given is None:
        for name, engine in context.engines.items():
            if not engine.is_present(context.root) and (absent := engine.absence(context.root)):
                context.note(f"warning: {name}: {absent}")
        return automatic(_here(context))
    given = [_of_kubelet(context) if name == KUBELET else name for name in given]
    for name in given:
        if name not in context.engines:
            raise CgpuError(f"--runtimes {show(name)}: {_meant(context, name)}")
        # Settings of an engine that is not named are not read.
        if not context.engines[name].is_present(context.root):
            here = ", ".join(_here(context)) or "none"
            absent = context.engines[name].absence(context.root)
            raise CgpuError(f"--runtimes {name}: {absent or f'is not on this machine; here are {here}'}")
    return tuple(dict.fromkeys(given))


def _meant(context: Context, name: str) -> str:
    """Return what is said of a name that is no engine's."""
    known = list(context.engines)
    if not name:
        return "an empty name; expected names with commas between them; without the option: all that are here"
    parts = name.split()
    if len(parts) > 1 and all(part in known for part in parts):
        return f"names have commas between them, and no blanks: {','.join(parts)}"
    if name.lower() in KUBERNETES:
        return f"did you mean {KUBELET}, for the engine of this node's kubelet?"
    meant = suggest.expected(name, known, "see: cgpu install --help")
    return f"there is no such container engine; here are {', '.join(_here(context)) or 'none'}; {meant}"


def _of_kubelet(context: Context) -> str:
    """Return the engine that the kubelet uses. Raises CgpuError where that is not known.

    A node's software brings its own for its kubelet. Else it is the only one, or the kubelet's
    options or files name it.
    """
    here = [one for one in context.engines.values() if one.kubelet_socket and one.is_present(context.root)]
    found = [one for one in here if one.is_part] or here
    if len(found) > 1:
        named = _endpoint(context.root)
        found = [one for one in found if one.kubelet_socket == named] or found
    if len(found) == 1:
        return found[0].name
    names = ", ".join(one.name for one in found) or ", ".join(_here(context)) or "none"
    known = ", ".join(name for name, one in ENGINES.items() if one.kubelet_socket)
    raise CgpuError(
        f"--runtimes {KUBELET}: which engine the kubelet uses is not known; here are {names}; "
        f"expected the name of one: {known}"
    )


def _endpoint(root: Path) -> str:
    """Return the socket that the kubelet was started with; empty where nothing names one."""
    pids = [one.pid for one in programs.processes(root) if one.program == KUBELET]
    given = next(filter(None, (_endpoint_of(root, pid) for pid in pids)), "")
    return given.removeprefix("unix://").replace("/var/run/", "/run/", 1)


def _endpoint_of(root: Path, pid: int) -> str:
    """Return what a kubelet's option says, else the last of its configuration's files that says it.

    kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file: options before the drop-ins, which are
    merged in the order of their names, before the file.
    """
    if given := programs.option(root, pid, ENDPOINT):
        return given
    paths = [programs.option(root, pid, CONFIG)]
    if folder := programs.option(root, pid, DROP_INS):
        paths += [f"{folder}/{name}" for name in files.names(root, folder) if name.endswith(".conf")]
    said = (_said_in(root, path) for path in reversed(paths) if path and path.startswith("/"))
    return next(filter(None, said), "")


def _said_in(root: Path, path: str) -> str:
    """Return the endpoint that a file of the kubelet's configuration has, empty without one."""
    try:
        document = yaml.safe_load(files.text(root, path) or "")
    except NOT_YAML:
        return ""
    said = document.get("containerRuntimeEndpoint") if isinstance(document, dict) else None
    return said if isinstance(said, str) else ""


def _here(context: Context) -> list[str]:
    return [name for name, engine in context.engines.items() if engine.is_present(context.root)]


def automatic(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the names that need not be asked for."""
    return tuple(name for name in names if name not in ENGINES or not ENGINES[name].by_request)
