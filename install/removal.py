# SPDX-License-Identifier: Apache-2.0
"""Obstacles to a removal, and its effects on containers.

Container engines are asked, with a time limit, which containers have the runtime. The answer is only printed,
but for running containers that their engine cannot stop without the runtime: those stop an uninstallation. A
silent engine stops nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgpu.errors import CgpuError, one_line
from cgpu.install import drain
from cgpu.install.runner import Runner
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.engine import Run
from cgpu.runtime_config.engines.registry import ENGINES

TIMEOUT_S = 10.0
NAMED = 20  # in a line
KEEPS = "the package has to stay as long as these: the engines call its runtime for exec, stop and rm"


def refuse_slices(root: Path, runner: Runner, say: drain.Say, drain_s: float | None) -> None:
    """Raise CgpuError while sliced containers run. No slices may be given out meanwhile.

    drain_s: how long to wait for their end; None: not at all.
    """
    drain.check_engine(root, runner)
    if drain_s is not None:
        drain.wait(root, drain_s, say)
        return
    names = drain.settled(root)
    if names:
        raise CgpuError(f"sliced containers run: {', '.join(names)}: end them, or: cgpu uninstall --drain")


def refuse_stuck(runner: Runner, engines: Sequence[str]) -> None:
    """Raise CgpuError while containers run that their engine could not stop without the runtime."""
    for engine, names in stuck(runner, engines).items():
        raise CgpuError(
            f"{engine} containers with the runtime {NAME} run: {shown(names, ', ')}: without it {engine} "
            f"cannot stop them; first: {engine} rm -f {shown(names, ' ')}"
        )


def consumers(root: Path, runner: Runner, engines: Sequence[str]) -> Iterator[str]:
    """Yield a line for each engine that has such containers, and one for each that does not answer."""
    found = False
    for engine in (ENGINES[name] for name in engines if name in ENGINES):
        if not engine.consumers_advice:
            continue
        try:
            names = engine.consumers(root, _within_time(runner))
        except (CgpuError, OSError) as error:
            yield f"warning: {engine.name} does not say which containers have the runtime {NAME} ({error})"
            continue
        if names:
            found = True
            advice = engine.consumers_advice.format(names=shown(names, " "))
            yield f"warning: {engine.name}: {shown(names, ', ')} with the runtime {NAME}: {advice}"
    if found:
        yield f"warning: {KEEPS}"


def stuck(runner: Runner, engines: Sequence[str]) -> dict[str, list[str]]:
    """Return by engine the containers that run, and which the engine could not stop without the runtime."""
    found: dict[str, list[str]] = {}
    for name in engines:
        with contextlib.suppress(CgpuError, OSError):
            names = ENGINES[name].stuck(_within_time(runner)) if name in ENGINES else []
            found |= {name: names} if names else {}
    return found


def _within_time(runner: Runner) -> Run:
    return lambda words: runner.run(words, TIMEOUT_S)


def shown(names: Sequence[str], between: str) -> str:
    """Return the first names for a line."""
    more = ["..."] if len(names) > NAMED else []
    return between.join([*(one_line(name) for name in names[:NAMED]), *more])
