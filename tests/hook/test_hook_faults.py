# SPDX-License-Identifier: Apache-2.0
"""The hook under strace: its files, its errors when a write fails, and its remains after a kill."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.support import CONTAINER, MIB
from tests.hook.support import FakeTree
from tests.request.shares import SHARE
from tests.request.support import spec

DESTROY = f"destroy id={CONTAINER}"
GRANT = ("--grant", f"0:{6043 * MIB}:1:0")
GRANTED = f"create id={CONTAINER} pid=4711 gpu=0:{6043 * MIB}:1:0"


def traced(output: Path, *options: str) -> tuple[str, ...]:
    """Return strace with these options, or skip where it cannot trace."""
    probe = ["/usr/bin/strace", "-o", "/dev/null", "/bin/true"]
    try:
        able = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        pytest.skip("strace is missing or may not trace (apt-get install strace)")
    return ("/usr/bin/strace", "-o", str(output), *options)


def test_asks_for_nothing_and_the_tree_is_left_alone(tree: FakeTree) -> None:
    """A container without any GPU touches no file of the tree."""
    tree.bundle(spec({}))
    trace = tree.base / "trace"
    before = traced(
        trace, "-P", str(tree.path), "-P", str(tree.inst_ctl), "-P", f"{tree.path}/default_memsize"
    )
    assert tree.run("prestart", before=before).status == 0
    assert str(tree.path) not in trace.read_text()


# Number of calls of an interpreter that starts.
STARTING = 30
# Arguments of the hook, changes of the state, and the expected line. C leaves the last ones to Python.
STEPS: dict[str, tuple[tuple[str, ...], dict[str, object], str]] = {
    "grant": (("prestart", *GRANT), {}, GRANTED),
    "share": (("prestart", "--share", SHARE), {}, f"create id={CONTAINER} pid=4711 share={SHARE}"),
    "poststop": (("poststop",), {"pid": 0, "bundle": "/gone"}, DESTROY),
    "handed over": (("prestart", *GRANT), {"annotations": {"a": "\u00e9"}}, GRANTED),
    "handed over, poststop": (("poststop",), {"pid": 0, "annotations": {"a": "\u00e9"}}, DESTROY),
}


@pytest.mark.parametrize("form", STEPS)
def test_killed_at_every_step(tree: FakeTree, form: str) -> None:
    """Killed at any system call from reading its input on, the hook leaves what poststop removes."""
    arguments, changes, line = STEPS[form]
    # Other letters than ASCII as they are: those C leaves to Python.
    state = json.dumps(json.loads(tree.state(**changes)), ensure_ascii=False)
    trace = tree.base / "trace"
    assert tree.run(*arguments, state=state, before=traced(trace)).status == 0
    calls = trace.read_text().splitlines()
    handed = tree.program is not None and form.startswith("handed over")
    assert any(call.startswith("memfd_create(") for call in calls) == handed
    assert any(call.startswith("execve(") for call in calls[1:]) == handed
    seen: set[tuple[int, str]] = set()
    for name, nth in steps(calls):
        tree.inst_ctl.write_text("")
        before = traced(Path(os.devnull), "-e", f"inject={name}:signal=KILL:when={nth}")
        result = tree.run(*arguments, state=state, before=before)
        seen.add((result.status, result.written))
        result = tree.run("poststop", state=tree.state(pid=0, bundle="/gone"))
        assert result.status == 0
        assert result.written.startswith(DESTROY)
    assert {written for _, written in seen} == {"", line}
    assert {status for status, _ in seen} <= {0, -9, 137}
    assert len(seen) > 1


def steps(calls: list[str]) -> Iterator[tuple[str, int]]:
    """Yield each call from the first look at the input on: its name, and which one of that name."""
    first = next(number for number, call in enumerate(calls) if call.startswith("read(0,"))
    # Most calls of a hand-over start the interpreter and touch nothing of ours: they are left out.
    last = max(number for number, call in enumerate(calls) if call.startswith("read(0,"))
    started = next(
        (number for number, call in enumerate(calls) if number and call.startswith("execve(")), last
    )
    seen: Counter[str] = Counter()
    for number, call in enumerate(calls):
        name, is_call, _ = call.partition("(")
        if is_call:
            seen[name] += 1
            if first <= number < started + STARTING or number >= last:
                yield name, seen[name]
