# SPDX-License-Identifier: Apache-2.0
"""The life of a node with cgpud, from Debian's package on a clean Debian 12 with systemd."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cgpu import __version__
from tests.integration.commands import eventually
from tests.packages import OLD, Packages
from tests.vm.harness.node import loaded
from tests.vm.harness.packaged_node import (
    BUILD_S,
    EVENTUALLY_S,
    PackagedNode,
    observed,
    slices,
    starts_without_python,
)

pytestmark = [pytest.mark.slow, pytest.mark.own_disk, pytest.mark.timeout(6 * BUILD_S)]


def status(node: PackagedNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run("cgpud", "--status"))
    return found


def serves(node: PackagedNode, version: str) -> int:
    """See that cgpud runs by its unit, and limits; return its process."""
    assert node.unit("cgpud") == "enabled active"
    # The package's own unit serves; there is no copy in /etc.
    unit = node.run("systemctl", "show", "--value", "--property", "FragmentPath", "cgpud")
    assert unit.strip() in ("/lib/systemd/system/cgpud.service", "/usr/lib/systemd/system/cgpud.service")
    found = status(node)
    assert found["version"] == version
    pid = int(node.run("systemctl", "show", "--value", "--property", "MainPID", "cgpud"))
    assert found["pid"] == pid
    return pid


def test_a_node_with_the_daemon(debian_node: PackagedNode, packages: tuple[Packages, Packages]) -> None:
    """Installed, rebooted, upgraded, restarted and killed under load, purged: nothing is left."""
    node, (old, new) = debian_node, packages
    before = node.state()
    node.install(old.daemon)
    assert node.unit("cgpud") == "disabled inactive"
    said = node.run("cgpu", "install", "--engine", "daemon")
    assert "engine: daemon; runtimes: docker, containerd" in said
    serves(node, OLD)
    node.start_load()
    node.reboot()
    # cgpud was there before docker started what it had.
    first = serves(node, OLD)
    slices(node)
    node.await_rounds()

    said = node.install(new.daemon)
    assert "to exchange it: cgpu upgrade" in said
    assert serves(node, OLD) == first
    said = node.run("cgpu", "upgrade")
    assert f"cgpud {__version__} runs" in said
    assert serves(node, __version__) == first
    node.await_rounds()
    node.run("systemctl", "restart", "cgpud")
    second = serves(node, __version__)
    assert second != first
    node.await_rounds()
    node.run("kill", "-KILL", str(second))
    eventually(lambda: node.unit("cgpud") == "enabled active", "systemd starts it anew", EVENTUALLY_S)
    assert serves(node, __version__) != second
    node.await_rounds()
    starts_without_python(node)
    observed(node, lambda: node.run("systemctl", "restart", "cgpud"))
    refused = node.attempt("cgpu", "uninstall")
    assert refused.returncode == 1
    assert "sliced containers run" in refused.stderr
    node.end_load()

    assert "what cgpu install has done is undone" in node.run("cgpu", "uninstall")
    assert node.unit("cgpud") == "disabled inactive"
    assert "nvidia" in loaded(node.machine)
    node.purge("opencgpu")
    assert node.changes(before) == []
