# SPDX-License-Identifier: Apache-2.0
"""What management clients ask a card about itself (kmod/abi/card.json), with drivers of all branches."""

from __future__ import annotations

import struct

import pytest

from tests.sim.abi import Status, address, card_facts, facts
from tests.sim.client import Client
from tests.sim.conftest import Start

VERSIONS = ("515.43.04", "525.147.05", "535.261.03", "550.163.01", "570.86.15", "580.142", "595.45.04")
INVALID_ID = 0xFFFFFFFF
MODELS = {
    "T4": (0x1EB8, 3, "TURING_COMPUTE_A"),
    "V100": (0x1DB1, 3, "VOLTA_COMPUTE_A"),
    "A10": (0x2236, 4, "AMPERE_COMPUTE_B"),
    "H200": (0x2335, 5, "HOPPER_COMPUTE_A"),
}


def number(name: str) -> int:
    return int(card_facts()["controls"][name]["cmd"])


def constant(name: str) -> int:
    return int(card_facts()["constants"][name]["value"], 0)


def ask(client: Client, target: int, name: str, form: str, **values: int) -> bytearray:
    """Ask a control that must be answered; return its parameters."""
    params = client.params(form, **values)
    assert client.control(target, number(name), params) == Status.OK
    return params


@pytest.mark.parametrize("version", VERSIONS)
def test_probed(start: Start, version: str) -> None:
    """Each card is listed by number, and has a place on the bus; another number has none."""
    with start("T4:2", version).client() as client:
        form = "NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS"
        ids = struct.unpack_from(
            "<64I", ask(client, client.handle, "NV0000_CTRL_CMD_GPU_GET_PROBED_IDS", form)
        )
        assert ids[2:] == (INVALID_ID,) * 62
        places = client.sim.layout("NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS")
        for bus, card in enumerate(ids[:2], start=1):
            params = places.pack(gpuId=card)
            assert (
                client.control(client.handle, number("NV0000_CTRL_CMD_GPU_GET_PCI_INFO"), params) == Status.OK
            )
            assert [places.get(params, name) for name in ("domain", "bus", "slot")] == [0, bus, 0]
        params = places.pack(gpuId=5)
        status = client.control(client.handle, number("NV0000_CTRL_CMD_GPU_GET_PCI_INFO"), params)
        assert status == Status.INVALID_ARGUMENT


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(start: Start, version: str) -> None:
    """The driver says its version, once it was told how much room there is for it."""
    with start("T4", version).client() as client:
        form = "NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS"
        name = "NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION"
        sizes = client.sim.layout(form)
        room = sizes.get(ask(client, client.handle, name, form), "sizeOfStrings")
        text = bytearray(room)
        ask(client, client.handle, name, form, sizeOfStrings=room, pDriverVersionBuffer=address(text))
        assert text.rstrip(b"\0").decode() == version
        params = client.params(form, sizeOfStrings=2, pDriverVersionBuffer=address(text))
        assert client.control(client.handle, number(name), params) != Status.OK


@pytest.mark.parametrize("model", MODELS)
def test_model(start: Start, model: str) -> None:
    """A card is on the bus what its model is, has that one's link, and serves its class of computing."""
    device, generation, compute = MODELS[model]
    sim = start(model)
    config = (sim.mount / "driver" / "gpus" / "0" / "config").read_bytes()
    assert struct.unpack_from("<HH", config) == (0x10DE, device)
    with sim.client() as client:
        form = "NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS"
        params = ask(client, client.subdevice, "NV2080_CTRL_CMD_BUS_GET_PCI_INFO", form)
        assert sim.layout(form).get(params, "pciDeviceId") == device << 16 | 0x10DE
        items = bytearray(struct.pack("<II", constant("NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CAPS"), 0))
        form = "NV2080_CTRL_BUS_GET_INFO_PARAMS"
        values = {"busInfoListSize": 1, "busInfoList": address(items)}
        ask(client, client.subdevice, "NV2080_CTRL_CMD_BUS_GET_INFO", form, **values)
        (caps,) = struct.unpack_from("<I", items, 4)
        assert (caps & 0xF, caps >> 4 & 0x3F) == (generation, 16)
        form = "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS"
        params = ask(client, client.device, "NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2", form)
        count, *classes = struct.unpack_from("<201I", params)
        assert facts()["classes"][compute]["id"] in classes[:count]
        assert {facts()["classes"][each[2]]["id"] for each in MODELS.values()} & set(classes) == {
            facts()["classes"][compute]["id"]
        }


@pytest.mark.parametrize("version", VERSIONS)
def test_not_there(start: Start, version: str) -> None:
    """What firmware would have to answer is not supported, and a list that is too long is refused."""
    control = facts()["controls"]["NV2080_CTRL_CMD_GPU_GET_INFO_V2"]
    with start("T4", version).client() as client:
        form = client.sim.layout(control["params"])
        params = form.pack(gpuInfoListSize=1)
        struct.pack_into("<I", params, 4, 1)  # the ECID, which only firmware reads
        assert client.control(client.subdevice, control["cmd"], params) == Status.NOT_SUPPORTED
        params = form.pack(gpuInfoListSize=(form.size - 4) // 8 + 1)
        assert client.control(client.subdevice, control["cmd"], params) == Status.INVALID_ARGUMENT
