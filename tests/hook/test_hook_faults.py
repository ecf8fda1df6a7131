# SPDX-License-Identifier: Apache-2.0
"""The hook under strace: its files, its errors when a write fails, and its remains after a kill."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.support import CONTAINER, MIB
from tests.hook.support import FakeTree
from tests.request.support import ENV, spec

DESTROY = f"destroy id={CONTAINER}"
LINE = f"create id={CONTAINER} gpu=0:{6043 * MIB}:1:0 pid=4711"


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
# By form: the stage, and whether it has a line, so that C does all of it.
STEPS = {
    "line": ("prestart", True),
    "line, poststop": ("poststop", True),
    "bundle": ("prestart", False),
    "poststop": ("poststop", False),
}


@pytest.mark.parametrize("form", STEPS)
def test_killed_at_every_step(tree: FakeTree, form: str) -> None:
    """Killed at any system call from its start on, the hook leaves what poststop removes."""
    stage, has_line = STEPS[form]
    arguments = tree.given(stage=stage) if has_line else (stage,)
    tree.bundle(spec({**ENV, "NVIDIA_VISIBLE_DEVICES": "0"}))
    trace = tree.base / "trace"
    assert tree.run(*arguments, before=traced(trace)).status == 0
    calls = trace.read_text().splitlines()
    assert any(call.startswith("execve(") for call in calls[1:]) != has_line
    seen: set[tuple[int, str]] = set()
    for name, nth in steps(calls):
        tree.inst_ctl.write_text("")
        before = traced(Path(os.devnull), "-e", f"inject={name}:signal=KILL:when={nth}")
        result = tree.run(*arguments, before=before)
        seen.add((result.status, result.written))
        result = tree.run("poststop", state=tree.state(pid=0, bundle="/gone"))
        assert result.status == 0
        assert result.written.startswith(DESTROY)
    assert {written for _, written in seen} == {"", DESTROY if stage == "poststop" else LINE}
    assert {status for status, _ in seen} <= {0, -9, 137}
    assert len(seen) > 1


def steps(calls: list[str]) -> Iterator[tuple[str, int]]:
    """Yield each call of the hook: its name, and which one of that name."""
    # Most calls of a hand-over start the interpreter and touch nothing of ours: they are left out.
    last = max((number for number, call in enumerate(calls) if call.startswith("read(0,")), default=0)
    started = next(
        (number for number, call in enumerate(calls) if number and call.startswith("execve(")), last
    )
    seen: Counter[str] = Counter()
    for number, call in enumerate(calls):
        name, is_call, _ = call.partition("(")
        if is_call:
            seen[name] += 1
            if 0 < number < started + STARTING or number >= last:
                yield name, seen[name]
