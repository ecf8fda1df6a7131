# SPDX-License-Identifier: Apache-2.0
"""Simulated cards that fall off the bus: what the driver answers, and what it does not mind."""

from __future__ import annotations

import pytest

from tests.sim.abi import FB_INFO_V2, PAGE_BIG, Status
from tests.sim.client import Client
from tests.sim.conftest import Start

GPU_IS_LOST = 0x0F  # nvstatuscodes.h
TOTAL = 0x8


def ask(client: Client) -> int:
    """Return the status of a question about memory of the card."""
    form = client.sim.layout("NV2080_CTRL_FB_GET_INFO_V2_PARAMS")
    params = form.pack(fbInfoListSize=1)
    params[form.fields["fbInfoList"][0]] = TOTAL
    return client.control(client.subdevice, FB_INFO_V2, params)


@pytest.mark.parametrize("version", ["515.43.04", "580.142"])
def test_a_lost_card(start: Start, version: str) -> None:
    """Controls and memory of the card alone are answered so, until it is back; what it had can be freed."""
    sim = start("T4=1024:2", version)
    knob = sim.mount / "driver" / "gpus" / "1" / "lost"
    assert knob.read_text() == "0\n"
    with sim.client(0) as other, sim.client(1) as client:
        status, memory = client.alloc_memory(PAGE_BIG)[:2]
        assert status == Status.OK
        knob.write_text("1\n")
        assert knob.read_text() == "1\n"
        assert (ask(client), client.alloc_memory(PAGE_BIG)[0]) == (GPU_IS_LOST, GPU_IS_LOST)
        assert (ask(other), other.alloc_memory(PAGE_BIG)[0]) == (Status.OK, Status.OK)
        assert client.free(memory) == Status.OK
        knob.write_text("0\n")
        assert (ask(client), client.alloc_memory(PAGE_BIG)[0]) == (Status.OK, Status.OK)


def test_what_is_no_switch(start: Start) -> None:
    """The file takes 0 or 1, and nothing else."""
    sim = start("T4=1024")
    knob = sim.mount / "driver" / "gpus" / "0" / "lost"
    for text in ("2\n", "11\n0"):
        with pytest.raises(OSError, match="Invalid argument"):
            knob.write_text(text)
    assert knob.read_text() == "0\n"
