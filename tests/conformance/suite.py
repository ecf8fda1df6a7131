# SPDX-License-Identifier: Apache-2.0
"""The whole suite, how it is handed to an executor, and how its answer is judged."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import control, memory, nodes, reservations
from tests.conformance.judge import fits
from tests.conformance.steps import Case

ROOT = Path(__file__).resolve().parents[2]

Answers = dict[str, dict[str, Any]]


def command(root: Path = ROOT) -> list[str]:
    """Return what runs the executor, with a machine's own Python; root: where the project is seen there."""
    code = f"import sys; sys.path.append({str(root)!r}); from tests.conformance.executor import main; main()"
    return ["/usr/bin/python3", "-ISc", code]


@dataclass(frozen=True, slots=True)
class Place:
    """Place in which the cases are carried out.

    tree and devices: the engine's tree and the driver's nodes. cgroups: whether each process gets its own.
    before: words in front of a program, {id} for the container. root: path of the project there. reclaims:
    whether the engine is to find by itself that a case has ended, which takes a while.
    """

    tree: str
    devices: str
    cgroups: bool
    before: tuple[str, ...] = ()
    root: Path = ROOT
    reclaims: bool = True

    def plan(self, cases: list[Case]) -> str:
        """Return what an executor reads."""
        build = self.root / "kmod" / "build"
        names = ("probe", "probe32")
        place = {
            "tree": self.tree,
            "cgroups": self.cgroups,
            "before": self.before,
            "reclaims": self.reclaims,
            "programs": {name: [f"{build}/cgpu-{name}", "--dev", self.devices] for name in names},
        }
        return json.dumps({"place": place, "cases": [dataclasses.asdict(case) for case in cases]})


# For an open file whose entry was removed procfs answers before the module is asked.
GONE = {"cgpud": ("ENOENT",), "cgpu_km": ("ENOENT", "EIO")}


def suite(engine: str, major: str, times: int = 60) -> list[Case]:
    """Return all cases for an engine that calls itself so, with GPU nodes of this major number."""
    gone = GONE[engine]
    registered = [*control.cases(times, gone), *reservations.cases(times)]
    return [*nodes.cases(engine, major, gone), *registered, *memory.cases()]


def answers(output: str) -> Answers:
    """Return what an executor printed, by the name of the case."""
    return {answer["name"]: answer for answer in map(json.loads, output.splitlines())}


def verify(case: Case, found: Answers) -> None:
    """Fail with every step of a case that gave something else than was expected."""
    assert case.name in found, f"{case.name}: the executor ended before it, or in it"
    answer = found[case.name]
    results = answer["results"]
    assert len(results) == len(case.steps)
    wrong = [r for r in results if not fits(r["step"].get("expect"), r["got"])]
    told = "\n".join(f"{result['step']}\n    gave {result['got']!r}" for result in wrong)
    assert not wrong, f"{case.fact}\n{told}"
    assert answer["left"] == [], f"{case.fact}\nleft behind: {answer['left']}"
