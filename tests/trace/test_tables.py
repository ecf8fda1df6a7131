# SPDX-License-Identifier: Apache-2.0
"""What a trace may say of a structure, against the driver's tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cgpu.trace import names

# As the driver's headers write pointers and places in a process's memory.
POINTER = re.compile(r"(^|\.)(p[A-Z]\w*|address|base|va\w+Internal|params|fbInfoList)$")
DESCRIPTOR = re.compile(r"(^|\.)(fd|\w+Fd|ctl_fd)$")


def recorded() -> list[tuple[str, str, str]]:
    """Return structure, field and kind of all that is recorded."""
    structs = names.recorded()["structs"]
    return [
        (form.partition(":")[0], name, kind)
        for form, fields in structs.items()
        for name, kind in fields.items()
    ]


@pytest.mark.parametrize(("form", "name", "kind"), recorded())
def test_field(form: str, name: str, kind: str) -> None:
    """A recorded field is a number of the driver's table; pointers and descriptors are marked as such."""
    sizes = {
        layout["fields"][name][1]
        for layout in names.facts()["structs"][form]["layouts"]
        if name in layout["fields"]
    }
    assert sizes
    assert sizes <= {1, 2, 4, 8}
    assert (kind == "pointer") == bool(POINTER.search(name)) == (kind == "pointer" and sizes == {8})
    assert (kind == "fd") == bool(DESCRIPTOR.search(name))
    assert (kind == "status") == (name in ("status", "params.status", "rmStatus"))


def test_every_number_has_a_name() -> None:
    """Classes, controls, calls and functions of the recorder's table are the driver's."""
    facts, table = names.facts(), names.recorded()
    assert set(table["calls"]) <= set(facts["escapes"])
    assert set(table["class_params"]) <= set(facts["classes"])
    assert set(table["control_params"]) <= set(facts["controls"])
    assert set(table["heap_functions"]) <= set(facts["constants"])
    for name, form in table["control_params"].items():
        assert facts["controls"][name]["params"] == form


def test_what_is_charged_is_recorded() -> None:
    """The parameters of every class that is charged are in a trace, so that a replay can charge it."""
    charged = {
        name
        for name, entry in names.facts()["classes"].items()
        if entry.get("memory") in {"vidmem", "group", "channel"}
    }
    assert charged <= set(names.recorded()["class_params"])


def test_generator_refuses_what_is_no_number(repository: Path, tmp_path: Path) -> None:
    """An array, or a field that is not there, cannot get into the tables."""
    for file in ("forms.py", "nvidia.json", "trace.json"):
        (tmp_path / file).write_text((repository / "kmod/abi" / file).read_text())
    good = (tmp_path / "trace.json").read_text()
    for wrong in ('"versionString": "number"', '"nothing": "number"'):
        (tmp_path / "trace.json").write_text(good.replace('"reply": "number"', wrong))
        command: list[str | Path] = [sys.executable, "-I", tmp_path / "forms.py", tmp_path / "gen"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        assert "trace.json" in done.stderr
