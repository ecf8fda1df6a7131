# SPDX-License-Identifier: Apache-2.0
"""The choice of container engines that get the runtime."""

from __future__ import annotations

from collections.abc import Sequence

from cgpu import suggest
from cgpu.errors import CgpuError, show
from cgpu.install.steps.step import Context
from cgpu.runtime_config.engines.registry import ENGINES

KUBERNETES = ("kubernetes", "k8s", "kubelet")


def choose(context: Context, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that --runtimes gives, all engines that are here without it. Raises CgpuError."""
    if given is None:
        for name, engine in context.engines.items():
            if not engine.is_present(context.root) and (absent := engine.absence(context.root)):
                context.note(f"warning: {name}: {absent}")
        return automatic(_here(context))
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
        return "name the container engine of the node; did you mean containerd or crio?"
    meant = suggest.expected(name, known, "see: cgpu install --help")
    return f"there is no such container engine; here are {', '.join(_here(context)) or 'none'}; {meant}"


def _here(context: Context) -> list[str]:
    return [name for name, engine in context.engines.items() if engine.is_present(context.root)]


def automatic(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the names that need not be asked for."""
    return tuple(name for name in names if name not in ENGINES or not ENGINES[name].by_request)
