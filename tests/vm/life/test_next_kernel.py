# SPDX-License-Identifier: Apache-2.0
"""The kernel of Debian's next release: the same modules, the same limit."""

from __future__ import annotations

import pytest

from tests.integration.probe import steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.conftest import Boot
from tests.vm.harness.bundles import Containers
from tests.vm.harness.kernels import Kernel, NoKernelError, next_kernel
from tests.vm.harness.sliced_node import SlicedNode


@pytest.fixture(scope="module")
def newer() -> Kernel:
    try:
        return next_kernel()
    except NoKernelError as error:
        pytest.skip(str(error))


@pytest.mark.next_kernel
@pytest.mark.enforcement
def test_sliced_container(newer: Kernel, boot: Boot) -> None:
    """There a container has its slice to the byte, too, and its memory is gone after it."""
    machine = boot(other=newer)
    node = SlicedNode(machine, Containers(machine)).use()
    outcome = node.containers.run(["/cgpu-probe", "info", "fill=512M:2m", "fill=1M:64k"], SLICE)
    node.await_empty()
    peak = node.view().cards[0]["peak"]
    node.unload()
    assert sum(one.number("bytes") for one in steps(outcome) if one.name == "fill") == LIMIT, outcome.text
    assert f" total={LIMIT} " in outcome.stdout
    assert peak == LIMIT
    assert f"Linux version {newer.release} " in machine.dmesg()
