# SPDX-License-Identifier: Apache-2.0
"""cgpu doctor, status, gc and config on a node whose engine is the kernel module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cgpu import __version__, paths
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import CONFIGURATION, TREE, read
from tests.vm.harness.process import Finished
from tests.vm.harness.store import ROOT

TIMEOUT = 240


def cgpu(machine: Machine, *words: str) -> Finished:
    """Run a subcommand in the guest; a failure is the caller's to judge."""
    script = 'cd "$1"; shift; exec "$@"'
    command = (str(ROOT / ".venv/bin/python"), "-m", "cgpu.main", *words)
    return machine.shell(script, machine.seen(ROOT), *command, timeout=TIMEOUT, check=False)


def document(machine: Machine, *words: str) -> dict[str, Any]:
    done = cgpu(machine, *words, "--json")
    assert done.stdout.startswith("{"), done.text
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def findings(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["verdict"] for one in found["findings"]}


@pytest.fixture
def node(engine: Machine) -> Iterator[Machine]:
    """Return a node with driver and engine, and no configuration before and after."""
    yield engine
    engine.shell(f"rm -rf {CONFIGURATION}")


def test_doctor(node: Machine) -> None:
    """The module is recognised, and its configuration is missed until it is applied."""
    found = document(node, "doctor")
    assert found["engine"] == {
        "wanted": "module", "running": "cgpu_km", "version": __version__, "tree": str(TREE)
    }  # fmt: skip
    verdicts = findings(found)
    well = (
        "engine",
        "versions",
        "enforce",
        "tree",
        "kernel-modules",
        "kernel-probes",
        "configuration-in-force",
    )
    assert {name: verdicts[name] for name in well} == dict.fromkeys(well, "ok"), found
    node.write_file(paths.CONFIG, "policy: 3\n")
    mended = document(node, "doctor", "--fix")
    assert "configuration-in-force: in force in cgpu_km" in mended["fixed"]
    assert findings(mended)["configuration-in-force"] == "ok"
    assert read(node, "0/policy") == "3\n"
