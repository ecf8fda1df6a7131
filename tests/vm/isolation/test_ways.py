# SPDX-License-Identifier: Apache-2.0
"""Ways to a card, and to its memory, that do not pass the driver's ioctl."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.attacks.build import uvm_probe
from tests.vm.harness.node import DRIVER_VERSION, read
from tests.vm.harness.process import Finished
from tests.vm.harness.sliced_node import SlicedNode
from tests.vm.harness.slices import GIB, PROBE, clear, slice_of

REFUSED = 0x1B  # NV_ERR_INSUFFICIENT_PERMISSIONS
ERRNO_EINVAL = 0x80000016


def pageable(done: Finished) -> list[int]:
    """Return whether HMM was on, for each time that was asked."""
    assert done.returncode == 0, done.text
    return [int(number) for number in re.findall(r"on=(\d) pageable", done.stdout)]


def opened(node: SlicedNode, card: int) -> int:
    """Return how often something in the kernel has opened a card so far."""
    return node.view().cards[card]["kernel_opened"]


@pytest.fixture(params=["525.147.05", DRIVER_VERSION])
def version(node: SlicedNode, request: pytest.FixtureRequest) -> Iterator[str]:
    """Have a version of the driver below the engine; its containers are ended before it goes."""
    with node.driver(request.param):
        yield request.param
        clear(node.machine)


@pytest.mark.fake_driver("other versions of the driver")
@pytest.mark.enforcement
@pytest.mark.usefixtures("version")
def test_hmm_is_off_in_containers(node: SlicedNode) -> None:
    """On a node with HMM, a container's ordinary memory stays off the card."""
    program = node.machine.seen(uvm_probe())
    inside = slice_of(node.machine, "tenant").run(program, "pageable")
    outside = node.machine.run([program, "pageable"])
    assert (pageable(inside), pageable(outside)) == ([0], [1])


@pytest.mark.fake_driver("other versions of the driver")
@pytest.mark.enforcement
@pytest.mark.usefixtures("version")
def test_processes_of_others_are_not_told(node: SlicedNode) -> None:
    """A container lists only its own processes on a card, with their memory, by any driver's numbers."""
    machine = node.machine
    first, second = slice_of(machine, "first"), slice_of(machine, "second")
    first.hold("alloc=64M")
    second.hold("alloc=128M")
    told = [one.probe("pids").check().stdout for one in (first, second)]
    outside = machine.run([machine.seen(PROBE), "pids"]).stdout
    found = [sorted(map(int, re.findall(r"^pid \d+ bytes=(\d+)$", text, re.MULTILINE))) for text in told]
    assert found == [[0, 64 << 20], [0, 128 << 20]]
    assert len(re.findall(r"^pid \d+ bytes=", outside, re.MULTILINE)) == 3


@pytest.mark.fake_driver("two cards")
@pytest.mark.enforcement
def test_cards_of_others_are_not_started(node: SlicedNode) -> None:
    """A container neither attaches nor registers a card that it was not granted, even one in use."""
    node.use("T4:2")
    tenant = slice_of(node.machine, "tenant", f"0:{GIB}")
    program = node.machine.seen(uvm_probe())
    own, other = (read(node.machine, f"{gpu}/uuid").strip() for gpu in (0, 1))
    before = opened(node, 1)
    tries = [f"expect={ERRNO_EINVAL:#x}", "attach=1", f"expect={REFUSED:#x}", f"register={other}"]
    refused = tenant.run(program, *tries)
    after = opened(node, 1)
    user = node.machine.start([program, f"register={other}", "hold=1000"])
    user.await_output("register ")
    again = tenant.run(program, *tries)
    granted = tenant.run(program, "attach=0", f"register={own}")
    user.stop()
    assert (refused.returncode, again.returncode, granted.returncode) == (0, 0, 0), refused.text + again.text
    assert after == before


@pytest.mark.fake_driver("a count of starts of the card")
def test_free_memory_is_not_asked_of_an_idle_card(node: SlicedNode) -> None:
    """Reading memfree starts no card; while a container uses one the card itself is asked."""
    total = node.view().cards[0]["total"]
    before = opened(node, 0)
    idle = [int(read(node.machine, "0/memfree")) for _ in range(3)]
    assert (idle, opened(node, 0)) == ([total] * 3, before)
    slice_of(node.machine, "tenant", f"0:{4 * GIB}").hold("alloc=3G")
    time.sleep(1.1)  # asked at most once a second
    used = int(read(node.machine, "0/memfree"))
    clear(node.machine)
    assert used == total - 3 * GIB
    assert opened(node, 0) > before
    assert int(read(node.machine, "0/memfree")) == total
