# SPDX-License-Identifier: Apache-2.0
"""What `cgpu install` and `cgpu uninstall` do, without their command lines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cgpu import __version__, paths
from cgpu.config.load import load
from cgpu.errors import CgpuError
from cgpu.install import recover
from cgpu.install.checks import DesiredState, Finding, preflight
from cgpu.install.checks.finding import EngineKind
from cgpu.install.node.machine import Node
from cgpu.install.plan import PlanContext, runtimes
from cgpu.install.plan.engine import plan_daemon, plan_module
from cgpu.install.plan.exporter import plan_exporter
from cgpu.install.plan.own_files import configuration
from cgpu.install.plan.publisher import plan_publisher
from cgpu.install.plan.server import plan_server
from cgpu.install.transaction import execute, journal
from cgpu.install.transaction.journal import Journal
from cgpu.install.transaction.runner import Runner
from cgpu.install.transaction.steps import Context, Plan
from cgpu.node_files import below
from cgpu.runtime_config.engines.engine import ContainerEngine

Say = Callable[[str], None]
DRAIN_S = 600.0

OPEN = (
    "To do: if people share this node who do not trust each other: cgpu config set shared_node true --apply "
    "(until then images, and users who start containers, can have a whole GPU)"
)


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line of install says. runtimes: None stands for all that are here."""

    engine: Literal["auto", "module", "daemon"] = "auto"
    runtimes: tuple[str, ...] | None = None
    default_runtime: bool = False


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
        """Do what is missing; return whether anything was. Raises CgpuError; everything is as before then."""
        recover.repair(self.root, self.runner, self.engines, self.say)
        record = journal.load(self.root) or journal.at(self.root)
        plan_context = self._plan_context(record, record.staging)
        try:
            engine, plans, facts = self._plan(plan_context, request)
            self.notes += plan_context.kept
            steps = [plan for plan in plans if plan.title]
            context = Context(self.root, self.runner, record.store, self.engines)
            if steps:
                execute.run(record, context, "install", plans, facts, self.say)
            else:
                for plan in plans:
                    self.notes += [line for line in plan.show(context) if line.startswith("To do: ")]
        finally:
            journal.clear_staging(record.staging)
            journal.sweep(record.folder)
        self.notes += context.notes
        self.say(f"engine: {engine}; runtimes: {', '.join(facts['runtimes']) or 'none'}")
        if request.runtimes is None and not facts["runtimes"]:
            self.notes.append("To do: there is no container engine yet; once there is one: cgpu install")
        if steps and not _is_shared(self.root):
            self.notes.append(OPEN)
        return bool(steps)

    def show_install(self, request: Request) -> Iterator[str]:
        """Yield what install would do, as diffs and commands. Writes nothing there. Raises CgpuError."""
        record = journal.load(self.root) or journal.at(self.root)
        if recover.is_open(record):
            yield f"an interrupted {record.operation} would be repaired first, which is not shown"
        with tempfile.TemporaryDirectory(prefix="cgpu-") as folder:
            plan_context = self._plan_context(record, Path(folder, "staging"))
            _, plans, _ = self._plan(plan_context, request)
            context = Context(self.root, self.runner, record.store, self.engines)
            for plan in plans:
                if plan.title:
                    yield f"# {plan.title}"
                yield from plan.show(context)
            yield from plan_context.kept
            if not plans:
                yield "nothing to do"

    def uninstall(self, drain_s: float | None) -> bool:
        """Take everything back; return whether there was anything. Raises CgpuError.

        drain_s: how long to wait for the end of sliced containers; None: refuse while there are any.
        """
        repaired = recover.repair(self.root, self.runner, self.engines, self.say, removes=False)
        record = journal.load(self.root)
        if record is None:
            return bool(repaired)
        context = Context(self.root, self.runner, record.store, self.engines)
        recover.remove(record, context, self.say, drain_s)
        self.notes += context.notes
        if self.gather().ours.daemon_running:
            self.notes.append("To do: stop cgpud, which still runs: cgpud --stop")
        return True

    def show_uninstall(self) -> Iterator[str]:
        """Yield what uninstall would do. Writes nothing. Raises CgpuError."""
        record = journal.load(self.root)
        if record is None:
            yield "nothing to do: there is nothing here that cgpu install has done"
            return
        context = Context(self.root, self.runner, record.store, self.engines)
        yield from recover.consumers(self.root, self.runner, record.facts.get("runtimes", []))
        for step in reversed(record.steps):
            title = step.announced(context)
            lines = list(step.undo_show(context))
            if lines and title:
                yield f"# {title}"
            yield from lines
        yield from context.notes
        yield f"# removes {record.folder}"

    def _plan_context(self, record: Journal, staging: Path) -> PlanContext:
        return PlanContext(self.root, self.gather(), record, self.engines, staging)

    def _plan(
        self, plan_context: PlanContext, request: Request
    ) -> tuple[EngineKind, list[Plan], dict[str, Any]]:
        names = runtimes.choose(plan_context, request.runtimes)
        engine = choose_engine(plan_context, request.engine, names)
        self._check(preflight(plan_context.node, DesiredState(engine, runtimes.engines(names))))
        steps = configuration(plan_context)
        plan_engine = plan_module if engine == "module" else plan_daemon
        steps += plan_engine(plan_context, self.runner)
        steps += plan_publisher(plan_context, self.runner)
        steps += plan_exporter(plan_context)
        steps += plan_server(plan_context, self.runner)
        steps += runtimes.plan(plan_context, names, default=request.default_runtime)
        known = plan_context.record.facts.get("runtimes", [])
        facts: dict[str, Any] = {
            "engine": engine,
            "runtimes": [*known, *(name for name in names if name not in known)],
            "version": __version__,
        }
        return engine, steps, facts

    def _check(self, findings: Sequence[Finding]) -> None:
        """Say what speaks against it. Raises CgpuError for a problem."""
        for finding in findings:
            if finding.verdict in ("warning", "problem"):
                fix = f": {finding.fix}" if finding.fix else ""
                self.say(f"{finding.verdict}: {finding.text}{fix}")
        problems = [finding.name for finding in findings if finding.verdict == "problem"]
        if problems:
            raise CgpuError(f"this node is not ready, see above: {', '.join(problems)}; nothing was changed")


def _is_shared(root: Path) -> bool:
    try:
        return load(below(root, paths.CONFIG)).shared_node
    except CgpuError:
        return True  # the check of the configuration says what is wrong with it


def choose_engine(plan_context: PlanContext, given: str, names: Sequence[str]) -> EngineKind:
    """Return the engine. Raises CgpuError where the record has the other one."""
    recorded = plan_context.record.facts.get("engine")
    if given == "auto":
        if recorded in ("module", "daemon"):
            return "module" if recorded == "module" else "daemon"
        return "module" if is_module_possible(plan_context.node, names) else "daemon"
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
    findings = preflight(node, DesiredState(engine, runtimes.engines(names)))
    return {finding.name for finding in findings if finding.verdict == "problem"}
