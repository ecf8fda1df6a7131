# SPDX-License-Identifier: Apache-2.0
"""The words that cases are written in: each makes one step as data for the executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = Any
Step = dict[str, Json]

MIB = 1 << 20
PAGE = 64 << 10
CARD = 15109 * MIB
EINVAL: Json = {"errno": "EINVAL"}
NOTHING: Json = {"nothing": True}


@dataclass(frozen=True, slots=True)
class Case:
    """One fact about engines: its name, a sentence, and the steps that show it on two T4 cards."""

    name: str
    fact: str
    steps: tuple[Step, ...]


def case(name: str, fact: str, *steps: Step | Sequence[Step]) -> Case:
    """Make a case of steps and lists of steps."""
    flat: list[Step] = []
    for step in steps:
        flat.extend([step] if isinstance(step, dict) else step)
    return Case(name, fact, tuple(flat))


def fails(*names: str) -> Json:
    """Expect one of these errors."""
    return {"errno": list(names)}


def container(seed: int) -> str:
    """Return an id of 64 hexadecimal digits."""
    return f"{seed:012x}" + "5" * 52


def directory(seed: int, gpu: int = 0) -> str:
    """Return the directory of a container with such an id."""
    return f"{gpu}/{container(seed)[:12]}"


def read(node: str, expect: Json = None, **more: Json) -> Step:
    return {"op": "read", "node": node, "expect": expect, **more}


def write(node: str, text: str, expect: Json = None, **more: Json) -> Step:
    """Make one write to a node."""
    return {"op": "write", "node": node, "text": text, "expect": expect, **more}


def opens(file: str, node: str, flag: str = "O_RDONLY") -> Step:
    """Open a node under a name."""
    return {"op": "open", "file": file, "node": node, "flag": flag, "expect": None}


def part(file: str, offset: int, size: int, expect: Json) -> Step:
    """Read a part of an open node."""
    return {"op": "read", "file": file, "offset": offset, "size": size, "expect": expect}


def put(file: str, text: str, expect: Json = None) -> Step:
    """Make one write to an open node."""
    return {"op": "write", "file": file, "text": text, "expect": expect}


def names(node: str, expect: Json, **more: Json) -> Step:
    """List a directory."""
    return {"op": "list", "node": node, "expect": expect, **more}


def containers(gpu: int, expect: Json, **more: Json) -> Step:
    return directories(str(gpu), expect, **more)


def directories(node: str, expect: Json, **more: Json) -> Step:
    return {"op": "list", "node": node, "directories": True, "expect": expect, **more}


def attributes(node: str, **fields: Json) -> Step:
    return {"op": "stat", "node": node, "expect": {"fields": fields}}


def alter(how: str, node: str) -> Step:
    """Try to change a directory, in vain."""
    return {"op": "alter", "how": how, "node": node, "expect": fails("*")}


def create(identity: int | str, process: str, gpus: str, expect: Json = None, **more: Json) -> Step:
    """Register a container of a started process."""
    name = identity if isinstance(identity, str) else container(identity)
    return write("inst_ctl", f"create id={name} pid={{pid:{process}}} {gpus}", expect, **more)


def destroy(identity: int | str, expect: Json = None) -> Step:
    """Remove a container."""
    name = identity if isinstance(identity, str) else container(identity)
    return write("inst_ctl", f"destroy id={name}", expect)


def start(name: str, seed: int = 0, *program: str, **more: Json) -> Step:
    """Make a process that waits, to become a program later or none."""
    return {
        "op": "start",
        "name": name,
        "id": container(seed),
        "program": list(program),
        "expect": None,
        **more,
    }


def sliced(name: str, seed: int, gpus: str, *words: str) -> list[Step]:
    """Start the probe in a container of its own and let it begin."""
    return [start(name, seed, "probe", *words), create(seed, name, gpus), go(name)]


def go(name: str) -> Step:
    """Let a started process become its program."""
    return {"op": "go", "name": name, "expect": None}


def release(name: str) -> Step:
    """Let a program go on that holds."""
    return {"op": "release", "name": name, "expect": None}


def line(name: str, begin: str, expect: Json = None) -> Step:
    """Wait for a process's next line that begins so."""
    return {"op": "line", "name": name, "start": begin, "expect": expect or {"has": [begin]}}


def finish(name: str, what: str = "output", **expect: Json) -> Step:
    """Wait for the end of a process and judge its output."""
    return {"op": "finish", "name": name, "what": what, "expect": expect}


def kill(name: str) -> Step:
    """End a process."""
    return {"op": "kill", "name": name, "expect": None}


def race(times: int, workers: Sequence[Sequence[Step]], *outcomes: str) -> Step:
    """Do lists of steps many times at once: nothing but these errors comes, "ok" being none."""
    return {"op": "race", "times": times, "workers": workers, "expect": {"within": list(outcomes)}}
