# SPDX-License-Identifier: Apache-2.0
"""Memory that leaves by descriptors stays within the limit of the container that it is from."""

from __future__ import annotations

import re

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.engine import MIB
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import DRIVER_VERSION, pass_check
from tests.vm.harness.process import Process
from tests.vm.harness.slices import PROBE, Stage, set_knob, stage

LIMIT = 1024 * MIB
REFUSED, NO_MEMORY, INVALID, NOT_SUPPORTED = 0x1B, 0x51, 0x3B, 0x56
SECONDS = 60
# The last version that makes dma-bufs of several objects without a risk.
SEVERAL = "570.211.01"
NAMES_MAPPING = "615.71.09"  # tells how a dma-buf is mapped, before where its handle goes


def holding(staged: Stage, name: str, *words: str) -> Process:
    process = staged.start(staged.slice(name, LIMIT), PROBE, *words, "count", "hold")
    process.await_output("count ", timeout=staged.machine.scaled(SECONDS))
    return process


def pid_of(staged: Stage, process: Process) -> str:
    assert process.running
    return staged.machine.shell("/bin/busybox pidof cgpu-probe").stdout.split()[0]


@pytest.mark.enforcement
def test_memory_of_the_host_is_exported(staged: Stage) -> None:
    """Memory of the host moves at no charge, alone or beside memory of the card; pinned memory stays."""
    full = [f"expect={NO_MEMORY:#x}", "alloc=64K:64k"]
    moved = [
        "host=16M",
        "export",
        "free",
        "import",
        "dup",
        "close-export",
        "export",
        "export=2",
        "free",
        "free",
    ]
    both = ["free", "alloc=768M", "host=16M", "export=2", "free=all", "alloc=256M", *full, "import=2"]
    both += ["close-export", "free", *full, "free", "alloc=768M", *full]
    pinned = ["pin=64K", f"expect={NOT_SUPPORTED:#x}", "export"]
    tenant = staged.slice("tenant", LIMIT)
    done = tenant.probe("alloc=1G", *moved, *full, *both, *pinned)
    seen = staged.view()
    assert done.returncode == 0, done.text
    assert (seen.cards[0]["peak"], seen.cards[0]["used"], seen.used[0, "tenant"]) == (LIMIT, 0, 0)
    owner = holding(staged, "giver", "host=16M", "export")
    taken = tenant.probe(f"take={pid_of(staged, owner)}:100", f"expect={REFUSED:#x}", "import")
    assert taken.returncode == 0, taken.text


@pytest.mark.enforcement
def test_leave_to_duplicate_stays_in_the_container(staged: Stage) -> None:
    """Another process needs the owner's leave, at no charge; another container neither gets nor gives any."""
    owner = holding(staged, "tenant", "alloc=512M", "share=4", "alloc=512M", "share=1")
    said = re.findall(r"share client=(\S+) handle=(\S+)", owner.finished().text)
    kept, given = (":".join(names) for names in said)
    other = staged.slice("other", LIMIT)
    refused = [f"expect={REFUSED:#x}", f"dup-of={given}", f"expect={REFUSED:#x}", f"share=3:0:{kept}"]
    across = other.probe("alloc=1M", *refused)
    inside = staged.slices[0].probe(f"expect={REFUSED:#x}", f"dup-of={kept}", f"dup-of={given}", "dup")
    assert (across.returncode, inside.returncode) == (0, 0), across.text + inside.text
    assert staged.view().used[0, "tenant"] == LIMIT
    owner.stop()


@pytest.mark.enforcement
def test_exports_stay_in_their_container(staged: Stage) -> None:
    """No other container and no process outside imports, and no memory comes in from outside."""
    owner = holding(staged, "giver", "alloc=512M", "export=1")
    source = f"take={pid_of(staged, owner)}:100"
    other = staged.slice("other", LIMIT)
    inside = other.probe(source, f"expect={REFUSED:#x}", "import")
    outside = staged.machine.run(
        [staged.machine.seen(PROBE), source, f"expect={INVALID:#x}", "import"], check=False
    )
    assert (inside.returncode, outside.returncode) == (0, 0), inside.text + outside.text
    giver = staged.machine.start(
        [staged.machine.seen(PROBE), "alloc=512M", "export", "count", "hold"], input=None
    )
    staged.processes.append(giver)
    giver.await_output("count ", timeout=staged.machine.scaled(SECONDS))
    pids = staged.machine.shell("/bin/busybox pidof cgpu-probe").stdout.split()
    words = [word for pid in pids for word in (f"take={pid}:100", f"expect={REFUSED:#x}", "import")]
    taken = other.probe(*words)
    assert taken.returncode == 0, taken.text


def buffers(staged: Stage, name: str, *words: str) -> None:
    """Have a new container make dma-bufs; all steps must answer as is said."""
    done = staged.slice(name, LIMIT).run(uvm_probe(), *words)
    assert done.returncode == 0, done.text


@pytest.mark.enforcement
@pytest.mark.parametrize(
    "version",
    [
        DRIVER_VERSION,
        pytest.param(NAMES_MAPPING, marks=pytest.mark.fake_driver("another version of the driver")),
    ],
)
def test_dma_bufs_are_charged(machine: Machine, version: str) -> None:
    """Memory of a dma-buf stays charged until its last close, whatever the driver is told of its mapping."""
    kept = ["alloc=768M", "dmabuf", "rm-free", f"expect={NO_MEMORY:#x}", "alloc=512M"]
    with stage(machine, version=version) as staged:
        # For the newer one, which is not in the table.
        pass_check(machine, version)
        buffers(staged, "tenant", *kept, "dmabuf-close", "alloc=1G")
        seen = staged.view()
        assert (seen.cards[0]["peak"], seen.cards[0]["used"], seen.used[0, "tenant"]) == (LIMIT, 0, 0)


# Not marked: without enforcement the driver does forget it, and the tests after it would find that.
@pytest.mark.fake_driver("a version before 550, where several objects in one buffer leak")
def test_dma_bufs_are_made_whole(staged: Stage) -> None:
    """A dma-buf of which the driver could forget a part is refused, and so is a later addition."""
    odd = [f"expect={NOT_SUPPORTED:#x}"]
    parts = [*odd, "dmabuf-second", *odd, "dmabuf-first", "dmabuf", *odd, "dmabuf-add"]
    buffers(staged, "tenant", "alloc=512M", "alloc=512M", *odd, "dmabuf=2", *parts)
    assert (staged.view().cards[0]["used"], staged.view().used[0, "tenant"]) == (0, 0)


@pytest.mark.fake_driver("another version of the driver")
@pytest.mark.enforcement
def test_dma_bufs_of_several_objects(machine: Machine) -> None:
    """A dma-buf keeps each of its objects, or none when the driver refuses one of them."""
    two = ["alloc=512M", "alloc=512M"]
    full = [f"expect={NO_MEMORY:#x}", "alloc=1M"]
    kept = [*two, "dmabuf=2", "rm-free", *full, "dmabuf-close", "alloc=512M"]
    with stage(machine, version=SEVERAL) as staged:
        # The second one of the three is gone.
        failed = [f"expect={NOT_SUPPORTED:#x}", "dmabuf=3", "rm-free", "alloc=512M", *full]
        buffers(staged, "tenant", *kept, *failed)
        seen = staged.view()
        assert (seen.cards[0]["peak"], seen.cards[0]["used"], seen.used[0, "tenant"]) == (LIMIT, 0, 0)


@pytest.mark.fake_driver("a knob of the driver")
@pytest.mark.parametrize("function", ["rm_dma_buf_dup_mem_handle", "dma_buf_export", "dma_buf_fd"])
def test_dma_bufs_that_fail(staged: Stage, function: str) -> None:
    """Wherever the driver fails to make one, nothing stays charged."""
    set_knob(staged.machine, "test_fail", function)
    status = 0x1A if function.startswith("rm_") else 0x59
    buffers(staged, "tenant", "alloc=1G", f"expect={status:#x}", "dmabuf", "rm-free", "alloc=1G")
    set_knob(staged.machine, "test_fail", "")
    assert (staged.view().used[0, "tenant"], staged.view().cards[0]["used"]) == (0, 0)


@pytest.mark.fake_driver("a driver that lacks a function")
@pytest.mark.enforcement
def test_dma_bufs_where_a_probe_is_missing(machine: Machine) -> None:
    """A driver whose duplicates cannot be seen to go makes no dma-bufs for containers."""
    with stage(machine, without="rm_dma_buf_undup_mem_handle") as staged:
        buffers(staged, "tenant", "alloc=1M", f"expect={NOT_SUPPORTED:#x}", "dmabuf")
