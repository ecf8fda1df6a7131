# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade with the kernel module: real modprobe and rmmod, and a core that was in use before.

tests/install/commands/test_upgrade_module.py kills the command at each step, and has steps fail.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cgpu import __version__, paths
from tests.daemon.upgrades import FIGURES, steady_load
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    CONFIGURATION,
    build_core,
    build_engine,
    keep_few_modules,
    load_engine,
    loaded,
    read,
    unload_engine,
)
from tests.vm.harness.process import Process
from tests.vm.harness.slices import GIB, clear, slice_of, view
from tests.vm.install.test_node_commands import cgpu

pytestmark = [pytest.mark.two_cpus, pytest.mark.dkms]

# The core of test_upgrade.py, which is built anyway: which number is higher makes no difference.
BEFORE = "0.1.1"
OLD, NEW = "cgpu_core_0_1_1", "cgpu_core_0_1_0"
# Bound of a call's pause through an upgrade, by the guest's clock: one left unanswered would wait for longer.
# The aim is 200 ms on a real machine; an emulated one on a busy host stands still for longer than that at
# times.
PAUSE_MS = 10_000.0
PUT = """
mkdir -p "/lib/modules/$(uname -r)/updates/dkms"
cp "$1"/*.ko "/lib/modules/$(uname -r)/updates/dkms/"
/sbin/depmod
"""
AWAY = f"""
umount "/lib/modules/$(uname -r)"
rm -rf /tmp/few-modules /run/cgpu-upgrading {CONFIGURATION}
"""


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Iterator[None]:
    """Have this version's modules where modprobe looks."""
    keep_few_modules(machine)
    machine.shell(PUT, machine.seen(build_engine(machine.kernel)))
    yield
    machine.shell(AWAY)


@pytest.fixture
def node(driver: Machine, installed: None) -> Iterator[Machine]:
    """Return the machine with the driver and the core of before."""
    load_engine(driver, build_core(driver, BEFORE))
    yield driver
    clear(driver)
    unload_engine(driver)


def cores(machine: Machine) -> list[str]:
    return sorted(name for name in loaded(machine) if name.startswith("cgpu_core_"))


def look(load: Process, machine: Machine) -> tuple[int, int, float]:
    """Return calls, failed ones and the longest in milliseconds since the last look."""
    seen = len(FIGURES.findall(load.finished().stdout))
    load.write("\n")
    assert load.until(lambda: len(FIGURES.findall(load.out.decode())) > seen, machine.scaled(30))
    calls, failed, longest = (int(one) for one in FIGURES.findall(load.finished().stdout)[seen])
    return calls, failed, longest / 1000


@pytest.mark.enforcement
def test_hot_under_load(node: Machine) -> None:
    """A container that allocates throughout sees no failed call; charges and registrations stay."""
    holder, busy = slice_of(node, "holds", f"0:{GIB}"), slice_of(node, "busy", f"0:{GIB}")
    held = holder.hold("alloc=512M")
    load = busy.start(steady_load(), "--dev", "/dev", "1000")
    load.await_output("steady begins\n", timeout=node.scaled(30))
    limits = view(node).limits
    dry = cgpu(node, "upgrade", "--dry-run")
    assert dry.stdout.splitlines()[2:] == [
        f"modprobe {NEW}",
        "echo 1 > /proc/cgpu_km/upgrade",
        f"rmmod {OLD}",
    ], dry.text
    assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])
    look(load, node)
    done = cgpu(node, "upgrade")
    calls, failed, longest = look(load, node)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"core {__version__} runs"), done.text
    assert (read(node, "version"), cores(node)) == (f"{__version__}\n", [NEW])
    assert calls > 0
    assert failed == 0
    assert longest < PAUSE_MS
    assert (view(node).limits, view(node).used[0, "holds"]) == (limits, 512 << 20)
    assert holder.probe("expect=0x51", "alloc=1G").returncode == 0
    refused = cgpu(node, "upgrade", "--cold")
    assert "--cold: 2 sliced containers run; stop them first" in refused.stderr, refused.text
    load.finish()
    held.finish()


def test_cold(node: Machine) -> None:
    """Without containers all is loaded anew, with the configuration in force."""
    node.write_file(paths.CONFIG, "policy: 3\nmax_inst: 7\nallow_zero_weight: true\n")
    done = cgpu(node, "upgrade", "--cold")
    assert done.returncode == 0, done.text
    assert (read(node, "version"), cores(node)) == (f"{__version__}\n", [NEW])
    assert [read(node, name) for name in ("0/policy", "0/max_inst")] == ["3\n", "7\n"]
    for name in ("allow_zero_weight", "configured"):
        assert node.read_file(f"/sys/module/cgpu_km/parameters/{name}") == b"Y\n"
