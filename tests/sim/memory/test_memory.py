# SPDX-License-Identifier: Apache-2.0
"""Sizes: what the driver reports for a request, what the card gives, and where it ends."""

from __future__ import annotations

import pytest

from tests.sim.abi import DEVICE, KIB, MIB, PAGE_BIG, PAGE_HUGE, VIDEO, Status, facts
from tests.sim.client import Client
from tests.sim.conftest import Start
from tests.sim.support import Sim, fields

# Cached pages, anywhere: fields of NVOS32_ATTR.
PINNED_ATTR = 1 << 29 | 1 << 27 | 1 << 25
SIZE_4K, SIZE_BIG, SIZE_HUGE = 1 << 23, 2 << 23, 3 << 23
ALLOC_SIZE, FREE, INFO, TILED, RANGE, DESCRIPTOR = 2, 3, 5, 6, 14, 27
SURFACE = 0xDA  # NV_SEMAPHORE_SURFACE
HUGE_512M = 2 << 20
HANDLE_PROVIDED = 0x4000
ALIGNMENT_FORCE = 0x100


@pytest.mark.parametrize(
    ("size", "attr", "reported", "taken"),
    [
        (1, 0, PAGE_BIG, PAGE_BIG),
        (PAGE_BIG, 0, PAGE_BIG, PAGE_BIG),
        (PAGE_BIG + 1, 0, 2 * PAGE_BIG, 2 * PAGE_BIG),
        (PAGE_HUGE - 1, 0, PAGE_HUGE, PAGE_HUGE),
        (PAGE_HUGE, 0, PAGE_HUGE, PAGE_HUGE),
        (PAGE_HUGE + 1, 0, 2 * PAGE_HUGE, 2 * PAGE_HUGE),
        (1, SIZE_4K, 4 * KIB, PAGE_BIG),
        (PAGE_BIG + 1, SIZE_4K, PAGE_BIG + 4 * KIB, 2 * PAGE_BIG),
        (3 * MIB, SIZE_4K, 3 * MIB, 3 * MIB),
        (3 * MIB, SIZE_BIG, 3 * MIB, 3 * MIB),
        (3 * MIB + 1, SIZE_BIG, 3 * MIB + PAGE_BIG, 3 * MIB + PAGE_BIG),
        (1, SIZE_HUGE, PAGE_HUGE, PAGE_HUGE),
        (3 * MIB, SIZE_HUGE, 4 * MIB, 4 * MIB),
    ],
)
@pytest.mark.parametrize("way", ["large", "small", "heap"])
def test_rounding(client: Client, way: str, size: int, attr: int, reported: int, taken: int) -> None:
    """Size and limit are the request rounded to its page; the card gives whole pages of at least 64 KiB."""
    if way == "heap":
        status, data = client.heap(
            ALLOC_SIZE,
            data__AllocSize__owner=1,
            data__AllocSize__attr=attr,
            data__AllocSize__size=size,
        )
        form, prefix = client.sim.layout("NVOS32_PARAMETERS"), "data.AllocSize."
    else:
        data = client.memory(size, attr=attr)
        status, _ = client.alloc(client.device, VIDEO, data, small=way == "small")
        form, prefix = client.sim.layout("NV_MEMORY_ALLOCATION_PARAMS"), ""
    assert status == Status.OK
    assert form.get(data, prefix + "size") == reported
    assert form.get(data, prefix + "limit") == reported - 1
    default = 3 if size >= PAGE_HUGE else 2
    assert form.get(data, prefix + "attr") >> 23 & 3 == (attr >> 23 or default)
    assert client.sim.used() == taken


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"size": 0}, Status.INVALID_ARGUMENT),
        ({"owner": 0}, Status.INVALID_OWNER),
        ({"owner": 0xDEAF0001}, Status.INVALID_OWNER),
        ({"attr": 1 << 25}, Status.INVALID_ARGUMENT),
        ({"attr": 3 << 25}, Status.INVALID_ARGUMENT),
        ({"flags": 0x80000}, Status.INVALID_ARGUMENT),
        ({"internalflags": 1}, Status.INVALID_ARGUMENT),
        ({"hVASpace": 1}, Status.INVALID_ARGUMENT),
        ({"type": 18}, Status.INVALID_ARGUMENT),
        ({"rangeHi": 1}, Status.INVALID_ARGUMENT),
        ({"attr2": 1 << 27}, Status.INVALID_ARGUMENT),
        ({"attr2": 1 << 25}, Status.INVALID_ARGUMENT),
        ({"attr": SIZE_HUGE, "attr2": HUGE_512M}, Status.INVALID_STATE),
        ({"flags": ALIGNMENT_FORCE, "alignment": 100000}, Status.INVALID_ARGUMENT),
        ({"size": (1 << 64) - 1}, Status.NO_MEMORY),
        ({"size": (1 << 64) - PAGE_HUGE}, Status.NO_MEMORY),
        ({"size": 15109 * MIB + 1}, Status.NO_MEMORY),
    ],
)
def test_refused_requests(sim: Sim, client: Client, values: dict[str, int], status: int) -> None:
    """Each wrong request has the driver's status and takes nothing."""
    params = client.memory(**{"size": PAGE_BIG, **values})
    assert client.alloc(client.device, VIDEO, params)[0] == status
    assert sim.used() == 0


def test_pages_of_512_mib(start: Start) -> None:
    """An Ampere card has pages of 512 MiB."""
    sim = start("A10")
    with sim.client() as client:
        status, _, size = client.alloc_memory(1, attr=SIZE_HUGE, attr2=HUGE_512M)
        assert (status, size) == (Status.OK, 512 * MIB)


def test_the_whole_card(start: Start) -> None:
    """In pages of 64 KiB all bytes of a card can be had and not one page more; a freed one comes back."""
    sim = start("T4=63")
    words = ("fill=64K", "expect=0x51", "alloc=1", "free=last", "alloc=64K", "expect=0x51", "alloc=4k:4k")
    assert fields(sim.lines(*words)[0])["bytes"] == str(63 * MIB)
    lines = sim.lines("fill=2M:2m", "fill=64K", "expect=0x51", "alloc=1")
    assert [fields(line)["bytes"] for line in lines[:2]] == [str(62 * MIB), str(MIB)]


def test_heap_calls(sim: Sim, client: Client) -> None:
    """VID_HEAP frees by handle, tells total and free bytes, and knows no other function."""
    form = sim.layout("NVOS32_PARAMETERS")
    status, data = client.heap(
        ALLOC_SIZE,
        data__AllocSize__owner=1,
        data__AllocSize__size=PAGE_BIG,
        data__AllocSize__hMemory=0x77,
        data__AllocSize__flags=HANDLE_PROVIDED,
    )
    assert (status, form.get(data, "data.AllocSize.hMemory")) == (Status.OK, 0x77)
    assert (form.get(data, "total"), form.get(data, "free")) == (0, 0)
    status, data = client.heap(INFO)
    assert status == Status.OK
    assert form.get(data, "total") == 15109 * MIB
    assert form.get(data, "free") == 15109 * MIB - PAGE_BIG
    assert client.heap(FREE, data__Free__hMemory=0x77)[0] == Status.INVALID_ARGUMENT
    assert client.heap(FREE, data__Free__hMemory=0x77, data__Free__flags=1)[0] == Status.OK
    assert sim.used() == 0
    for function in (0, 15, 16, 18, 19, 20, 99):
        assert client.heap(function)[0] == Status.NOT_SUPPORTED


def test_heap_by_other_forms(sim: Sim, client: Client) -> None:
    """Memory in a range, and by height and pitch, is rounded like any; memory of the caller takes nothing."""
    form = sim.layout("NVOS32_PARAMETERS")
    status, data = client.heap(RANGE, data__AllocSizeRange__owner=1, data__AllocSizeRange__size=PAGE_BIG + 1)
    assert (status, form.get(data, "data.AllocSizeRange.size")) == (Status.OK, 2 * PAGE_BIG)
    part = "data__AllocTiledPitchHeight__"
    status, data = client.heap(TILED, **{f"{part}owner": 1, f"{part}height": 3, f"{part}pitch": PAGE_HUGE})
    assert (status, form.get(data, "data.AllocTiledPitchHeight.size")) == (Status.OK, 3 * PAGE_HUGE)
    assert sim.used() == 2 * PAGE_BIG + 3 * PAGE_HUGE
    status, data = client.heap(
        DESCRIPTOR, data__AllocOsDesc__attr=PINNED_ATTR, data__AllocOsDesc__limit=MIB - 1
    )
    assert (status, form.get(data, "data.AllocOsDesc.hMemory") != 0) == (Status.OK, True)
    assert sim.used() == 2 * PAGE_BIG + 3 * PAGE_HUGE


@pytest.mark.parametrize(
    ("attr", "status"),
    [
        (PINNED_ATTR, Status.OK),
        (PINNED_ATTR & ~(1 << 29), Status.INVALID_FLAGS),
        (PINNED_ATTR & ~(1 << 27), Status.INVALID_FLAGS),
    ],
)
def test_own_memory_by_the_heap(client: Client, attr: int, status: int) -> None:
    """The heap's function for own memory wants it cached, and not in one piece."""
    told, _ = client.heap(
        DESCRIPTOR,
        data__AllocOsDesc__attr=attr,
        data__AllocOsDesc__descriptor=0x10000,
        data__AllocOsDesc__limit=0xFFFF,
    )
    assert told == status


@pytest.mark.parametrize(
    ("version", "taken"),
    [("545.29.06", PAGE_BIG), ("550.40.07", 0), ("590.48.01", 0), ("595.45.04", PAGE_BIG)],
)
def test_heap_and_memory_of_other_sockets(start: Start, version: str, taken: int) -> None:
    """Versions that do not know that memory give memory of the card instead."""
    sim = start("T4", version=version)
    with sim.client() as client:
        status, _ = client.heap(
            ALLOC_SIZE, data__AllocSize__owner=1, data__AllocSize__size=1, data__AllocSize__attr2=1 << 24
        )
        assert (status, sim.used()) == (Status.OK, taken)


def test_surfaces_keep_their_memory(sim: Sim, client: Client) -> None:
    """A semaphore surface keeps the memory that it was made of."""
    status, memory, _ = client.alloc_memory(PAGE_HUGE)
    params = client.params("NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS", hSemaphoreMem=memory)
    status, surface = client.alloc(client.subdevice, SURFACE, params)
    assert status == Status.OK
    assert (client.free(memory), sim.used()) == (Status.OK, PAGE_HUGE)
    assert (client.free(surface), sim.used()) == (Status.OK, 0)


def test_heap_derives_the_class(sim: Sim, client: Client) -> None:
    """A VID_HEAP request for a host place or a virtual range takes nothing from the card."""
    for values in ({"attr": 1 << 25}, {"flags": 0x80000}, {"attr2": 1 << 24}):
        named = {f"data__AllocSize__{name}": value for name, value in values.items()}
        status, _ = client.heap(ALLOC_SIZE, data__AllocSize__owner=1, data__AllocSize__size=PAGE_BIG, **named)
        assert status == Status.OK
    assert sim.used() == 0


def test_unreadable_parameters(sim: Sim, client: Client) -> None:
    """Nested parameters that cannot be read answer with a status, not with an errno."""
    form = sim.layout("NVOS64_PARAMETERS")
    for class_id, parent in ((VIDEO, client.device), (DEVICE, client.handle)):
        data = form.pack(hRoot=client.handle, hObjectParent=parent, hClass=class_id, pAllocParms=8)
        client.call(0x2B, data)
        assert form.get(data, "status") == Status.INVALID_ADDRESS
    assert client.alloc(client.device, VIDEO)[0] == Status.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "class_name", [name for name, entry in facts()["classes"].items() if entry.get("memory") == "vidmem"]
)
def test_every_class_of_card_memory_takes_some(sim: Sim, client: Client, class_name: str) -> None:
    """The card gives out what the core charges for, until it is freed."""
    before = sim.used()
    status, handle = client.alloc(client.device, facts()["classes"][class_name]["id"], client.memory(3 * MIB))
    assert (status, sim.used() - before) == (Status.OK, 4 * MIB)
    assert client.free(handle) == Status.OK
    assert sim.used() == before
