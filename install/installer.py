# SPDX-License-Identifier: Apache-2.0
"""The work of `cgpu install` and `cgpu uninstall`, without their command lines.

Each step makes something true, as often as it is done. A command that failed or was killed goes on when it is
run again: it does what is not done, and again the step at which it ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cgpu import __version__, paths
from cgpu.config.load import load
from cgpu.errors import CgpuError
from cgpu.install import drain, plan, removal, runtimes, steps
from cgpu.install.checks import DesiredState, Finding, preflight
from cgpu.install.checks.finding import EngineKind
from cgpu.install.commands.upgrade import module
from cgpu.install.drain import Say
from cgpu.install.node.facts import driver
from cgpu.install.node.machine import Node
from cgpu.install.plan import Plan
from cgpu.install.runner import Runner
from cgpu.install.steps.engine import Engine
from cgpu.install.steps.step import Context, Step
from cgpu.install.store import NAME, Store
from cgpu.node_files import FileEdit, below, obstacles
from cgpu.runtime_config.engines.engine import ContainerEngine

DRAIN_S = 600.0

OPEN = (
    "To do: if people share this node who do not trust each other: cgpu config set shared_node true --apply "
    "(until then images, and users who start containers, can have a whole GPU)"
)
AGAIN = "what was done stays: cgpu install goes on, cgpu uninstall takes it back"


@dataclass(frozen=True, slots=True)
class Request:
    """The options of the install command. runtimes: None stands for all that are here.

    units: systemd gets units, where the node has it.
    """

    engine: Literal["auto", "module", "daemon"] = "auto"
    runtimes: tuple[str, ...] | None = None
    default_runtime: bool = False
    units: bool = True


@dataclass(slots=True)
class Installer:
    """Installs on a node, and takes the installation back. gather: reads the facts of the node."""

    root: Path
    runner: Runner
    engines: Mapping[str, ContainerEngine]
    gather: Callable[[], Node]
    say: Say
    notes: list[str] = field(default_factory=list)

    def install(self, request: Request) -> bool:
        """Do what is missing; return whether anything was. Raises CgpuError."""
        drain.clear(self.root, self.say)
        module.finish(self.runner, __version__, self.say)
        context = self._context()
        engine, planned, facts = self._plan(context, request)
        missing = _missing(context, planned)
        context.store.tidy()
        if missing:
            _refuse_obstacles(context, missing)
            context.store.facts.update(facts)
            self._do(context, missing)
        if missing or context.store.command:
            # An engine at which an earlier run ended, and which this one did not name, has settings to read.
            engines = [name for name in context.store.unfinished if name.startswith(f"{Engine.kind} ")]
            context.store.end(engines if request.runtimes is not None else ())
        self.say(f"engine: {engine}; runtimes: {', '.join(facts['runtimes']) or 'none'}")
        self.notes += [*context.notes, *planned.notes]
        if request.runtimes is None and not facts["runtimes"]:
            self.notes.append("To do: there is no container engine yet; once there is one: cgpu install")
        if missing and not _is_shared(self.root):
            self.notes.append(OPEN)
        return bool(missing)

    def show_install(self, request: Request) -> Iterator[str]:
        """Yield what install would do, as diffs and commands, and what prevents it. Raises CgpuError."""
        lines: list[str] = []
        context = self._context(lines.append)
        _, planned, _ = self._plan(context, request)
        missing = _missing(context, planned)
        for step in missing:
            lines.append(f"# {step.title}")
            step.do(context)
            yield from lines
            lines.clear()
        yield from (f"problem: {line}" for line in _obstacles(context))
        yield from (*context.notes, *planned.notes)
        if not missing and not planned.notes:
            yield "nothing to do"

    def uninstall(self, drain_s: float | None) -> bool:
        """Take everything back; return whether there was anything. Raises CgpuError.

        drain_s: how long to wait for the end of sliced containers; None: refuse while there are any.
        """
        drain.clear(self.root, self.say)
        context = self._context()
        if not context.store.is_there:
            context.store.sweep()
            return False
        runtimes_here = context.store.facts.get("runtimes", [])
        with drain.refusing(self.root):
            removal.refuse_slices(self.root, self.runner, self.say, drain_s)
            removal.refuse_stuck(self.runner, runtimes_here)
            for line in removal.consumers(self.root, self.runner, runtimes_here):
                self.say(line)
            context.store.tidy()
            self._undo(context)
        self.notes += context.notes
        if self.gather().ours.daemon_running:
            self.notes.append("To do: stop cgpud, which still runs: cgpud --stop")
        return True

    def show_uninstall(self) -> Iterator[str]:
        """Yield what uninstall would do. Writes nothing. Raises CgpuError."""
        lines: list[str] = []
        context = self._context(lines.append)
        if not context.store.is_there:
            yield "nothing to do: there is nothing here that cgpu install has done"
            return
        yield from removal.consumers(self.root, self.runner, context.store.facts.get("runtimes", []))
        for name in reversed(context.store.steps):
            step = steps.named(name)
            title = step.undo_title(context)
            step.undo(context)
            if lines:
                yield f"# {title}"
            yield from lines
            lines.clear()
        yield from (f"problem: {line}" for line in _obstacles(context))
        yield from context.notes
        yield f"# removes {context.store.folder}"

    def _context(self, show: Callable[[str], None] | None = None) -> Context:
        return Context(self.root, self.gather(), self.runner, Store.load(self.root), self.engines, show)

    def _do(self, context: Context, missing: Sequence[Step]) -> None:
        for number, step in enumerate(missing, 1):
            self.say(f"[{number}/{len(missing)}] {step.title}")
            try:
                context.store.start("install", step.name)
                step.do(context)
                context.store.unfinished.remove(step.name)
            except (CgpuError, OSError) as error:
                self._say_notes(context)
                raise CgpuError(f"{step.title}: {_words(error)}; {AGAIN}") from error

    def _undo(self, context: Context) -> None:
        names = context.store.steps[::-1]
        try:
            for number, name in enumerate(names, 1):
                step = steps.named(name)
                if title := step.undo_title(context):
                    self.say(f"[{number}/{len(names)}] {title}")
                context.store.start("uninstall", name)
                step.undo(context)
                context.store.drop(name)
            for folder in context.store.remove_folders():
                context.note(f"{folder}: is not empty; it stays")
            context.store.delete()
        except (CgpuError, OSError) as error:
            self._say_notes(context)
            raise CgpuError(f"{_words(error)}; what is left stays: cgpu uninstall goes on") from error

    def _say_notes(self, context: Context) -> None:
        for note in context.notes:
            self.say(note)

    def _plan(self, context: Context, request: Request) -> tuple[EngineKind, Plan, dict[str, Any]]:
        asked = driver.with_mig(context.node.driver, self.root)
        context.node = dataclasses.replace(context.node, driver=asked)
        names = runtimes.choose(context, request.runtimes)
        engine = choose_engine(context, request.engine, names)
        self._check(preflight(context.node, DesiredState(engine, runtimes.automatic(names))))
        units = request.units and context.node.software.systemd
        planned = plan.make(context, engine, names, default=request.default_runtime, units=units)
        known = context.store.facts.get("runtimes", [])
        all_names = [*known, *(name for name in names if name not in known)]
        return engine, planned, {"engine": engine, "runtimes": all_names}

    def _check(self, findings: Sequence[Finding]) -> None:
        """Say what speaks against it. Raises CgpuError for a problem."""
        for finding in findings:
            if finding.verdict in ("warning", "problem"):
                fix = f": {finding.fix}" if finding.fix else ""
                self.say(f"{finding.verdict}: {finding.text}{fix}")
        problems = [finding.name for finding in findings if finding.verdict == "problem"]
        if problems:
            raise CgpuError(f"this node is not ready, see above: {', '.join(problems)}; nothing was changed")


def _missing(context: Context, planned: Plan) -> list[Step]:
    """Return the steps that are not done, and those at which an earlier run has ended. Raises CgpuError."""
    return [
        step for step in planned.steps if step.name in context.store.unfinished or not step.is_done(context)
    ]


def _refuse_obstacles(context: Context, missing: Sequence[Step]) -> None:
    """Have the steps show what they would edit. Raises CgpuError where a file cannot be changed."""
    trial = dataclasses.replace(context, show=lambda _: None, edits=[])
    for step in missing:
        step.do(trial)
    if lines := list(_obstacles(trial)):
        raise CgpuError(f"{'; '.join(lines)}; nothing was changed")


def _obstacles(context: Context) -> Iterator[str]:
    """Yield a line for each place that prevents an edit that was shown, or the record of it."""
    record = FileEdit(context.store.folder / NAME, None, b"")
    return obstacles(context.root, [*context.edits, record])


def _words(error: Exception) -> str:
    return (
        f"{error.filename or NAME}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
    )


def _is_shared(root: Path) -> bool:
    try:
        return load(below(root, paths.CONFIG)).shared_node
    except CgpuError:
        return True  # the check of the configuration says what is wrong with it


def choose_engine(context: Context, given: str, names: Sequence[str]) -> EngineKind:
    """Return the engine. Raises CgpuError where the record has the other one."""
    recorded = context.store.facts.get("engine")
    if given == "auto":
        if recorded in ("module", "daemon"):
            return "module" if recorded == "module" else "daemon"
        return "module" if is_module_possible(context.node, names) else "daemon"
    if recorded not in (None, given):
        raise CgpuError(
            f"--engine {given}: this node has the {recorded} engine: cgpu uninstall, then install again"
        )
    return "module" if given == "module" else "daemon"


def is_module_possible(node: Node, names: Sequence[str]) -> bool:
    """Return whether a known driver is loaded, and nothing speaks against the module alone."""
    if node.driver.loaded is None or not node.driver.known:
        return False
    return _problems(node, "module", names) <= _problems(node, "daemon", names)


def _problems(node: Node, engine: EngineKind, names: Sequence[str]) -> set[str]:
    findings = preflight(node, DesiredState(engine, runtimes.automatic(names)))
    return {finding.name for finding in findings if finding.verdict == "problem"}
