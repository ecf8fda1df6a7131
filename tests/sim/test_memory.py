# SPDX-License-Identifier: Apache-2.0
"""What takes memory of a simulated card: each class that the core charges for; and what takes none."""

from __future__ import annotations

import fcntl

from tests.sim.abi import (
    ALLOC_MEMORY,
    MIB,
    PAGE_BIG,
    PAGE_HUGE,
    PINNED,
    VIDEO,
    Status,
    command,
    facts,
)
from tests.sim.client import Client
from tests.sim.support import Sim

DESCRIPTOR = 27  # NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR
SURFACE, ADDRESSES, VA_SPACE = 0xDA, 0x50A0, 0x90F1
# NVOS32_ALLOC_FLAGS_VIRTUAL, and the attribute of pages of 4 KiB.
VIRTUAL, SMALL_PAGES = 0x80000, 1 << 23
TABLES_OF_7_TIB = 15_091_236_864
# Cached pages, anywhere: fields of NVOS32_ATTR; and of NVOS02_FLAGS, of pages that are not mapped again.
PINNED_ATTR = 1 << 29 | 1 << 27 | 1 << 25
PINNED_FLAGS = 1 << 30 | 1 << 12 | 1 << 4


def test_every_class_of_card_memory_takes_some(sim: Sim, client: Client) -> None:
    """The card gives out what the core charges for, until it is freed."""
    classes = [row for row in facts()["classes"].values() if row.get("memory") == "vidmem"]
    assert classes
    for row in classes:
        status, handle = client.alloc(client.device, row["id"], client.memory(3 * MIB))
        assert (status, sim.used()) == (Status.OK, 4 * MIB), row
        assert (client.free(handle), sim.used()) == (Status.OK, 0), row


def test_surfaces_keep_their_memory(sim: Sim, client: Client) -> None:
    """A semaphore surface keeps the memory that it was made of."""
    status, memory = client.alloc(client.device, VIDEO, client.memory(PAGE_HUGE))
    params = client.params("NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS", hSemaphoreMem=memory)
    status, surface = client.alloc(client.subdevice, SURFACE, params)
    assert status == Status.OK
    assert (client.free(memory), sim.used()) == (Status.OK, PAGE_HUGE)
    assert (client.free(surface), sim.used()) == (Status.OK, 0)


def test_pinned_memory_takes_none(sim: Sim) -> None:
    """The caller's own pages take nothing of the card, by heap or old call; wrong flags are refused."""
    with sim.client() as client, sim.tied(client) as card:
        for attr, expected in ((PINNED_ATTR, Status.OK), (PINNED_ATTR & ~(1 << 27), Status.INVALID_FLAGS)):
            status, _ = client.heap(
                DESCRIPTOR, data__AllocOsDesc__attr=attr, data__AllocOsDesc__limit=PAGE_BIG - 1
            )
            assert status == expected
        form = sim.layout("nv_ioctl_nvos02_parameters_with_fd")
        for flags, at, expected in (
            (PINNED_FLAGS, 0x10000, Status.OK),
            (PINNED_FLAGS & ~(1 << 30), 0x10000, Status.INVALID_FLAGS),
            (PINNED_FLAGS, 0x10010, Status.NOT_SUPPORTED),
        ):
            data = form.pack(
                params__hRoot=client.handle,
                params__hObjectParent=client.device,
                params__hClass=PINNED,
                params__flags=flags,
                params__pMemory=at,
                params__limit=PAGE_BIG - 1,
            )
            fcntl.ioctl(card, command(ALLOC_MEMORY, form.size), data, True)
            assert form.get(data, "params.status") == expected
        assert sim.used() == 0


def test_addresses_take_page_tables(sim: Sim, client: Client) -> None:
    """A reservation fills the card's pool of page tables, also one that fails, until no space is left."""
    space = client.alloc(client.device, VA_SPACE, client.params("NV_VASPACE_ALLOCATION_PARAMETERS"))[1]
    assert sim.used() == PAGE_BIG
    for size, expected, used in (
        # What 550.163.01 took, beside the piece that the pool had.
        (7 << 40, Status.OK, TABLES_OF_7_TIB + PAGE_BIG),
        (1 << 48, Status.NO_MEMORY, TABLES_OF_7_TIB + PAGE_BIG),
    ):
        params = client.memory(size, attr=SMALL_PAGES, flags=VIRTUAL, hVASpace=space)
        assert client.alloc(client.device, ADDRESSES, params)[0] == expected
        assert sim.used() == used
    assert (client.free(space), sim.used()) == (Status.OK, 0)
