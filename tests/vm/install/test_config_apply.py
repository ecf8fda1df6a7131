# SPDX-License-Identifier: Apache-2.0
"""A node with the kernel module and a configuration: nothing is granted before it was applied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cgpu import paths
from tests.integration.probe import steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.policies import policies
from tests.vm.harness.bundles import Containers
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import CONFIGURATION, build_engine, insmod, load_engine, read, rmmod, unload_engine
from tests.vm.harness.process import Finished
from tests.vm.harness.slices import await_empty
from tests.vm.harness.store import ROOT

CONFIG = "policy: 3\nmax_inst: 7\ndefault_memsize: 1073741824\nmax_mem_container_mib: 4096\n"
NOT_APPLIED = f"{paths.CONFIG}: not applied since cgpu_km was loaded: cgpu-config-apply"
FIRST = {"NVIDIA_VISIBLE_DEVICES": "0"}


def apply(machine: Machine, text: str) -> Finished:
    machine.write_file(paths.CONFIG, text)
    script = 'cd "$1"; exec "$2" -m cgpu.config.apply'
    return machine.shell(script, machine.seen(ROOT), ROOT / ".venv/bin/python", timeout=120, check=False)


@pytest.fixture
def node(engine: Machine) -> Iterator[Machine]:
    """Return a node with driver and engine, and no configuration before and after."""
    yield engine
    engine.shell(f"rm -rf {CONFIGURATION}")


def test_a_configuration_counts_when_it_was_applied(node: Machine, containers: Containers) -> None:
    """A request for a GPU is refused until the module has the configuration, also after a new load."""
    node.write_file(paths.CONFIG, CONFIG)
    refused = containers.run(["/cgpu-probe", "info"], FIRST)
    assert (refused.returncode != 0, NOT_APPLIED in refused.text) == (True, True)
    applied = apply(node, CONFIG)
    assert applied.returncode == 0, applied.text
    in_force = [read(node, name) for name in ("0/policy", "0/max_inst", "default_memsize")]
    assert in_force == ["3\n", "7\n", "1073741824\n"]
    assert " total=1073741824 " in containers.run(["/cgpu-probe", "info"], FIRST).text
    more = containers.run(["/cgpu-probe"], {**FIRST, "ALIYUN_COM_GPU_MEM_CONTAINER": "6"})
    assert "this node allows 4096 (max_mem_container_mib)" in more.text
    unload_engine(node)
    load_engine(node)
    assert NOT_APPLIED in containers.run(["/cgpu-probe", "info"], FIRST).text


@pytest.mark.parametrize(
    "parameter", [f"policy={len(policies())}", "max_inst=26", "max_inst=0", "prio_ratio=19"]
)
def test_parameters_out_of_range(driver: Machine, parameter: str) -> None:
    """A parameter that no engine takes is refused with a line that says what is accepted."""
    folder = build_engine(driver.kernel)
    insmod(driver, folder / "cgpu_km.ko", parameter)
    insmod(driver, next(folder.glob("cgpu_core_*.ko")), check=False)
    there = driver.run(["/bin/busybox", "test", "-e", "/proc/cgpu_km/version"], check=False)
    rmmod(driver, "cgpu_km")
    assert there.returncode != 0
    assert any("max_inst 1 to 25" in line for line in driver.dmesg().splitlines())


@pytest.mark.enforcement
def test_crun(node: Machine, containers: Containers) -> None:
    """Under crun, where the configuration names it, a container has its slice, and its exec joins it."""
    applied = apply(node, "low_level_runtime: /usr/bin/crun\n")
    assert applied.returncode == 0, applied.text
    started = containers.detach("by-crun", ["/bin/sleep", "3600"], SLICE)
    assert started.returncode == 0, started.text
    state = node.run(["/usr/bin/crun", *containers.base[1:], "state", "by-crun"])
    first = containers.exec("by-crun", ["/cgpu-probe", "info", "fill=512M:2m", "fill=1M:64k"])
    containers.delete("by-crun")
    await_empty(node)
    assert '"running"' in state.stdout
    assert sum(one.number("bytes") for one in steps(first) if one.name == "fill") == LIMIT, first.text
    assert f" total={LIMIT} " in first.stdout


def test_nodes_come_by_number(node: Machine, containers: Containers) -> None:
    """Without a configuration a container starts, and has nodes that the host's own /dev lacks."""
    node.shell("mv /dev/nvidia-uvm /dev/nvidia-uvm-tools /tmp")
    done = containers.run(["ls", "/dev"], {**FIRST, "ALIYUN_COM_GPU_MEM_CONTAINER": "6"})
    node.shell("mv /tmp/nvidia-uvm /tmp/nvidia-uvm-tools /dev")
    assert done.returncode == 0, done.text
    assert {"nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-uvm-tools"} <= set(done.stdout.split())
