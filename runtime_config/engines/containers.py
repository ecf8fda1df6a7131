# SPDX-License-Identifier: Apache-2.0
"""What several container engines say alike of their containers: which have our runtime, which have ended."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cgpu.errors import CgpuError
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines.engine import RUNTIME_NAME, Ended, Run
from cgpu.runtime_config.oci_runtime.lowlevel import NAME as LAUNCHER_NAME

TIMEOUT_S = 10.0
ENVIRONMENT = {"LC_ALL": "C", "HOME": "/"}
AT_ONCE = 200  # containers in one question
# What engines call a container that has ended. Any other word means that it may have processes.
ENDED = frozenset({"exited", "dead", "stopped", "removing", "configured", "container_exited"})


def is_ours(runtime: str) -> bool:
    """Return whether an engine's word for a runtime means ours: the name, or the path."""
    return runtime == RUNTIME_NAME or runtime.rpartition("/")[2] == LAUNCHER_NAME


def with_our_runtime(run: Run, engine: str, runtime: str, which: str = "--all") -> list[str]:
    """Return the containers with our runtime, by a command line that is docker's. Raises CgpuError.

    engine: the command; runtime: the field of `container inspect` that names it; which: an option of ps.
    """
    listed = run((engine, "ps", which, "--quiet"))
    if listed.status != 0:
        raise CgpuError(listed.last_line())
    # Warnings of the command are among the lines.
    identities = [line for line in listed.output.splitlines() if line.isalnum()]
    inspect = (engine, "container", "inspect", "--format", f"{{{{{runtime}}}}}|{{{{.Name}}}}")
    names = set()
    for first in range(0, len(identities), AT_ONCE):
        # The exit status says whether all of them are still there; what was printed counts.
        for line in run((*inspect, *identities[first : first + AT_ONCE])).output.splitlines():
            found, bar, name = line.partition("|")
            if bar and is_ours(found):
                names.add(name.strip().removeprefix("/"))
    return sorted(names)


def ended_by_cri(command: Sequence[str]) -> Ended:
    """Ask an engine that speaks Kubernetes' protocol, by crictl. Raises CgpuError."""
    answer = json_of([*command, "ps", "--all", "--output", "json"])
    rows = answer.get("containers") if isinstance(answer, dict) else None
    return by_state(rows, "id", "state")


def by_state(rows: object, key: str, state: str) -> Ended:
    """Return which containers of an engine's list have ended; one in a state not known may have processes."""
    found: Ended = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get(key), str):
            found[row[key]] = is_ended(row.get(state))
    return found


def is_ended(state: object) -> bool:
    """Return whether an engine's word means that no process is left."""
    return isinstance(state, str) and state.lower() in ENDED


def json_of(command: Sequence[str]) -> object:
    """Return what a command prints as JSON. Raises CgpuError."""
    output = _output(command)
    try:
        return json.loads(output or "null")
    except (ValueError, RecursionError) as error:
        raise CgpuError(f"{command[0]}: answers no JSON") from error


def lines_of(command: Sequence[str]) -> list[str]:
    """Return the lines that a command prints. Raises CgpuError."""
    return [line.strip() for line in _output(command).splitlines() if line.strip()]


def _output(command: Sequence[str]) -> str:
    try:
        answer = programs.ask(command, ENVIRONMENT, TIMEOUT_S)
    except CgpuError as error:
        raise CgpuError(f"{' '.join(command)}: fails") from error
    if answer.status:
        raise CgpuError(f"{' '.join(command)}: fails")
    return answer.output
