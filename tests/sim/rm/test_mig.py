# SPDX-License-Identifier: Apache-2.0
"""Simulated cards in MIG mode: what the driver says of them, and what a client without an instance gets."""

from __future__ import annotations

import subprocess

import pytest

from tests.sim.abi import FB_INFO_V2, HEAP_FREE, MIB, PAGE_BIG, Status
from tests.sim.client import Client
from tests.sim.conftest import Start
from tests.sim.support import BUILD

GPU_INFO = 0x20800102
MODE, TOTAL = 0x2A, 0x8
UNSUPPORTED, ENABLED, DISABLED = 0, 1, 2
INSTANCE = 0xC637


def mode(client: Client) -> int:
    """Return the card's MIG mode, as GPU_GET_INFO_V2 has it."""
    form = client.sim.layout("NV2080_CTRL_GPU_GET_INFO_V2_PARAMS")
    params = form.pack(gpuInfoListSize=1)
    start = form.fields["gpuInfoList"][0]
    params[start : start + 4] = MODE.to_bytes(4, "little")
    assert client.control(client.subdevice, GPU_INFO, params) == Status.OK
    return int.from_bytes(params[start + 4 : start + 8], "little")


@pytest.mark.parametrize("version", ["515.43.04", "530.41.03", "580.142", "595.45.04"])
def test_mode(start: Start, version: str) -> None:
    """Each version tells the mode in a structure of its own size."""
    sim = start("H200=1024:2/mig=1", version)
    with sim.client(0) as off, sim.client(1) as on:
        assert (mode(off), mode(on)) == (DISABLED, ENABLED)


def test_cards_without_mig(start: Start) -> None:
    """A card that has no MIG says so, and cannot be switched."""
    sim = start("T4")
    with sim.client() as client:
        assert mode(client) == UNSUPPORTED
    with pytest.raises(OSError, match="not supported"):
        (sim.mount / "driver" / "gpus" / "0" / "mig").write_text("1\n")
    for cards in ("T4/mig=0", "H200:2/mig=2", "H200/mig=", "H200/mig=00", "H200/mig=0,0"):
        done = subprocess.run([BUILD / "cgpu-sim", "--mount", "/nowhere", "--cards", cards], check=False)
        assert done.returncode == 1


def test_nothing_without_an_instance(start: Start) -> None:
    """A client has no memory and no free sizes before it has subscribed to the instance; it has the total."""
    sim = start("H200=1024/mig=0")
    with sim.client() as client:
        assert client.fb_info(TOTAL) == [1024 * MIB >> 10]
        form = sim.layout("NV2080_CTRL_FB_GET_INFO_V2_PARAMS")
        free = form.pack(fbInfoListSize=1)
        free[form.fields["fbInfoList"][0]] = HEAP_FREE
        assert client.control(client.subdevice, FB_INFO_V2, free) == Status.INSUFFICIENT_PERMISSIONS
        assert client.alloc_memory(PAGE_BIG)[0] == Status.INVALID_STATE
        assert client.alloc(client.device, INSTANCE)[0] == Status.INVALID_PARENT
        assert client.alloc(client.subdevice, INSTANCE)[0] == Status.OK
        assert client.alloc_memory(PAGE_BIG)[0] == Status.OK
        assert client.fb_info(HEAP_FREE) == [(1024 * MIB - PAGE_BIG) >> 10]
    (sim.mount / "driver" / "gpus" / "0" / "mig").write_text("0\n")
    with sim.client() as client:
        assert client.alloc(client.subdevice, INSTANCE)[0] == Status.NOT_SUPPORTED
        assert client.alloc_memory(PAGE_BIG)[0] == Status.OK
