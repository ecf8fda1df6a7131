# SPDX-License-Identifier: Apache-2.0
"""Bad input on a node with the module: one exact line each.

Bad variables are in tests/integration, bad lines for inst_ctl in tests/conformance.
"""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB
from tests.integration.probe import step
from tests.integration.test_slice import SLICE
from tests.vm.harness.node import TREE, load_engine, read, unload_engine
from tests.vm.harness.process import Finished
from tests.vm.harness.sliced_node import SlicedNode
from tests.vm.harness.slices import set_knob


def line_of(outcome: Finished) -> str:
    """Return the last line of ours out of what a refused start has printed."""
    assert outcome.returncode != 0, outcome.text
    lines = [line for line in outcome.stderr.splitlines() if "opencgpu: " in line]
    assert lines, outcome.text
    return lines[-1]


def test_who_shares_all_with_whoever_writes(node: SlicedNode) -> None:
    """Process 1 cannot be a container: nothing would tell it from the host, as the same descriptor says."""
    refused = node.write("inst_ctl", f"create id=x pid=1 gpu=0:{MIB}")
    assert (refused.returncode != 0, "Invalid argument" in refused.text) == (True, True), refused.text
    line = f"exec 3<>{TREE}/inst_ctl; echo create id=x pid=1 gpu=0:{MIB} >&3 || cat <&3"
    why = node.machine.shell(line).stdout
    assert why.startswith("process 1 shares its cgroups and its pid namespace with the caller"), why
    assert node.view().limits == {}


def test_without_the_module(node: SlicedNode) -> None:
    """Without the module a request is refused with the command that loads it; other containers start."""
    unload_engine(node.machine)
    try:
        refused = node.containers.run(["/cgpu-probe"], SLICE)
        native = node.containers.run(["/cgpu-probe", "--help"])
    finally:
        load_engine(node.machine)
    assert "the engine is not running, so " in line_of(refused)
    assert native.returncode == 0


@pytest.mark.fake_driver("a knob of the driver")
def test_cards_in_mig_mode(node: SlicedNode) -> None:
    """A card in MIG mode is refused by name, also when it came to it since the last look; whole it works."""
    cards = node.use("H200=4096:2/mig=1")
    assert [read(cards.machine, f"{gpu}/mig") for gpu in (0, 1)] == ["0\n", "1\n"]
    line = "is in MIG mode and cannot be sliced; name another, or switch MIG off (nvidia-smi -mig 0)"
    sliced = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_VISIBLE_DEVICES": "0"}
    assert f"GPU 1 {line}" in line_of(
        cards.containers.run(["/cgpu-probe"], {**sliced, "ALIYUN_COM_GPU_VISIBLE_DEVICES": "1"})
    )
    words = ["gpu=1", "instance", "alloc=2G", "info", "gpu=0", "info", "expect=0x1b", "instance"]
    mixed = cards.containers.run(["/cgpu-probe", *words], {**sliced, "NVIDIA_VISIBLE_DEVICES": "0,1"})
    assert mixed.returncode == 0, mixed.text
    assert [step(mixed, "info", index).number("total") >> 30 for index in (0, 1)] == [4, 1]
    set_knob(cards.machine, "test_mig", "0 1")
    assert f"GPU 0 {line}" in line_of(cards.containers.run(["/cgpu-probe"], sliced))
    assert read(cards.machine, "0/mig") == "1\n"
