# SPDX-License-Identifier: Apache-2.0
"""What management clients ask a card about itself (kmod/abi/card.json), with drivers of all branches."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest

from cgpu.kmod.daemon.simulate import models
from tests.sim.abi import Status, address, card_facts, facts
from tests.sim.client import Client
from tests.sim.conftest import Start

VERSIONS = ("515.43.04", "525.147.05", "535.261.03", "550.163.01", "570.86.15", "580.142", "595.45.04")
INVALID_ID = 0xFFFFFFFF
# The classes for work.
TURING = ("TURING_COMPUTE_A", "TURING_DMA_COPY_A", "TURING_CHANNEL_GPFIFO_A")
VOLTA = ("VOLTA_COMPUTE_A", "VOLTA_DMA_COPY_A", "VOLTA_CHANNEL_GPFIFO_A")
GA102 = ("AMPERE_COMPUTE_B", "AMPERE_DMA_COPY_B", "AMPERE_CHANNEL_GPFIFO_A")
GA100 = ("AMPERE_COMPUTE_A", "AMPERE_DMA_COPY_A", "AMPERE_CHANNEL_GPFIFO_A")
ADA = ("ADA_COMPUTE_A", "AMPERE_DMA_COPY_B", "AMPERE_CHANNEL_GPFIFO_A")
HOPPER = ("HOPPER_COMPUTE_A", "HOPPER_DMA_COPY_A", "HOPPER_CHANNEL_GPFIFO_A")
BLACKWELL = ("BLACKWELL_COMPUTE_A", "BLACKWELL_DMA_COPY_A", "BLACKWELL_CHANNEL_GPFIFO_A")
# Of each model its PCI device, the generation of its link, its classes, SM version and multiprocessors.
MODELS = {
    "T4": (0x1EB8, 3, TURING, 0x705, 40),
    "V100": (0x1DB1, 3, VOLTA, 0x700, 80),
    "A10": (0x2236, 4, GA102, 0x806, 72),
    "A100": (0x20F1, 4, GA100, 0x800, 108),
    "A100-80GB": (0x20B5, 4, GA100, 0x800, 108),
    "L4": (0x27B8, 4, ADA, 0x809, 58),
    "L40S": (0x26B9, 4, ADA, 0x809, 142),
    "H100": (0x2330, 5, HOPPER, 0x900, 132),
    "H200": (0x2335, 5, HOPPER, 0x900, 132),
    "B200": (0x2901, 5, BLACKWELL, 0xA00, 148),
}
GRAPHICS = 1  # NV2080_ENGINE_TYPE_GR0
GROUP_PARAMS = "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS"
CHANNEL_PARAMS = "NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS"
FIGURES = ("SM_VERSION", "SHADER_PIPE_SUB_COUNT", "LITTER_NUM_SM_PER_TPC")
COMPUTE = {row[2][0] for row in MODELS.values()}
COPY = {row[2][1] for row in MODELS.values()}


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


def test_models() -> None:
    """Each model is in the table of these tests."""
    assert tuple(MODELS) == models()


def class_id(name: str) -> int:
    return int(facts()["classes"][name]["id"])


def ids(names: Iterable[str]) -> set[int]:
    """Return the numbers of classes."""
    return {class_id(name) for name in names}


def made(client: Client, parent: int, name: str, form: str, **values: int) -> int:
    """Make an object that must be had; return its handle."""
    status, handle = client.alloc(parent, class_id(name), client.params(form, **values))
    assert status == Status.OK
    return handle


@pytest.mark.parametrize("model", MODELS)
def test_model(start: Start, model: str) -> None:
    """A card is on the bus what its model is, has that one's link, and serves its generation's classes."""
    device, generation, work, _, _ = MODELS[model]
    sim = start(model.lower())
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
        served = set(classes[:count])
        assert len(served) == count
        assert ids(work) <= served
        assert ids(COMPUTE) & served == ids(work[:1])
        assert ids(COPY) & served == ids(work[1:2])


@pytest.mark.parametrize("model", MODELS)
def test_work(start: Start, model: str) -> None:
    """A card takes channels and engine objects of its classes, and has the multiprocessors of its model."""
    _, _, (compute, copy, channel), version, processors = MODELS[model]
    sim = start(model)
    with sim.client() as client:
        group = made(client, client.device, "KEPLER_CHANNEL_GROUP_A", GROUP_PARAMS, engineType=GRAPHICS)
        queue = made(client, group, channel, CHANNEL_PARAMS)
        for engine in (compute, copy):
            assert client.alloc(queue, class_id(engine))[0] == Status.OK
        items = bytearray(
            b"".join(struct.pack("<II", constant(f"NV0080_CTRL_GR_INFO_INDEX_{name}"), 0) for name in FIGURES)
        )
        form = "NV2080_CTRL_GR_GET_INFO_PARAMS"
        ask(
            client,
            client.subdevice,
            "NV2080_CTRL_CMD_GR_GET_INFO",
            form,
            grInfoListSize=3,
            grInfoList=address(items),
        )
        sm_version, tpcs, each = struct.unpack("<4xI4xI4xI", items)
        assert (sm_version, tpcs * each) == (version, processors)


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
