# SPDX-License-Identifier: Apache-2.0
"""The life of a node with the kernel module, from Debian's packages on a clean Debian 12 with systemd."""

from __future__ import annotations

import pytest

from cgpu import __version__
from tests.packages import OLD, Packages
from tests.vm.harness import debian
from tests.vm.harness.debian import dashed
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.node import loaded, read
from tests.vm.harness.packaged_node import (
    BUILD_S,
    HELD,
    PackagedNode,
    observed,
    slices,
    starts_without_python,
)
from tests.vm.harness.slices import view

pytestmark = [pytest.mark.slow, pytest.mark.own_disk, pytest.mark.timeout(6 * BUILD_S)]


@pytest.fixture
def compiled(kernel: Kernel) -> None:
    """Have the modules compiled that the machine need not compile."""
    debian.prebuild(kernel)


def serves(node: PackagedNode, version: str) -> None:
    """See that the module is up, as a boot or an upgrade should have left it, and that it limits."""
    assert {"nvidia", "cgpu_km", f"cgpu_core_{dashed(version)}"} <= set(loaded(node.machine))
    assert read(node.machine, "version") == f"{version}\n"
    assert node.read("/sys/module/cgpu_km/parameters/configured") == "Y\n"
    assert node.unit("cgpu-config-apply") == "enabled active"
    assert node.unit("cgpud") == "disabled inactive"


def charged(node: PackagedNode) -> int:
    """Return what the holder is charged; engine and card count the same while the load rests."""
    name = node.run("docker", "inspect", "--format", "{{.Id}}", "holder")[:12]
    node.run("docker", "pause", "load")
    seen = view(node.machine)
    node.run("docker", "unpause", "load")
    assert sum(seen.used.values()) == seen.cards[0]["used"]
    return seen.used[0, name]


@pytest.mark.usefixtures("compiled")
def test_a_node_with_the_module(debian_node: PackagedNode, packages: tuple[Packages, Packages]) -> None:
    """Installed, rebooted, upgraded under load, rebooted, uninstalled and purged: nothing is left."""
    node, (old, new) = debian_node, packages
    before = node.state()
    node.install(*old)
    assert not [name for name in loaded(node.machine) if name.startswith("cgpu")]
    said = node.run("cgpu", "install", "--engine", "module", timeout=BUILD_S)
    assert "engine: module; runtimes: docker, containerd" in said
    serves(node, OLD)
    softdep = node.run("modinfo", "-F", "softdep", "cgpu_km")
    assert softdep.split() == ["pre:", "nvidia", "nvidia-uvm", "post:", f"cgpu_core_{dashed(OLD)}"]
    assert "nothing to change" in node.run("cgpu", "install", "--engine", "module", timeout=BUILD_S)
    node.start_load()
    node.reboot()
    # systemd has loaded the module and configured it before docker started what it had.
    serves(node, OLD)
    slices(node)
    node.await_rounds()

    said = node.install(*new)
    assert "to exchange it: cgpu upgrade" in said
    serves(node, OLD)
    sums = charged(node)
    said = node.run("cgpu", "upgrade")
    assert f"core {__version__} takes over while containers go on" in said
    assert charged(node) == sums == HELD
    serves(node, __version__)
    slices(node)
    node.await_rounds()
    refused = node.attempt("cgpu", "uninstall")
    assert refused.returncode == 1
    assert "sliced containers run" in refused.stderr
    node.reboot()
    serves(node, __version__)
    node.await_rounds()
    starts_without_python(node)
    observed(node, lambda: node.run("systemctl", "restart", "cgpu-config-apply"))
    node.end_load()

    assert "what cgpu install has done is undone" in node.run("cgpu", "uninstall", timeout=BUILD_S)
    assert not [name for name in loaded(node.machine) if name.startswith("cgpu")]
    node.purge("opencgpu", "opencgpu-dkms")
    assert node.changes(before) == []
