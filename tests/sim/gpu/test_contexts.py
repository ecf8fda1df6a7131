# SPDX-License-Identifier: Apache-2.0
"""Channel groups of the graphics engine take memory of the card that no figure of a process has."""

from __future__ import annotations

import os

from tests.sim.abi import (
    CHANNEL,
    COPY,
    GRAPHICS,
    GROUP,
    MIB,
    PAGE_BIG,
    SPACE,
    VIDEO,
    Status,
)
from tests.sim.client import Client
from tests.sim.conftest import Start
from tests.sim.support import Sim

EACH = 22 * MIB


def group(client: Client, engine: int, space: int = 0, parent: int = 0) -> tuple[int, int]:
    """Make a channel group."""
    params = client.params("NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS", engineType=engine, hVASpace=space)
    return client.alloc(parent or client.device, GROUP, params)


def channel(client: Client, parent: int, engine: int) -> tuple[int, int]:
    """Make a channel."""
    params = client.params("NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS", engineType=engine)
    return client.alloc(parent, CHANNEL, params)


def test_what_takes_a_context(sim: Sim) -> None:
    """Groups of the graphics engine, of none, and channels outside of groups; nothing else does."""
    with sim.client() as client:
        assert group(client, COPY)[0] == Status.OK
        assert sim.used() == 0
        status, first = group(client, GRAPHICS)
        assert (status, sim.used()) == (Status.OK, EACH)
        assert channel(client, first, GRAPHICS)[0] == Status.OK
        assert sim.used() == EACH
        assert group(client, 0)[0] == Status.OK
        assert channel(client, client.device, GRAPHICS)[0] == Status.OK
        assert channel(client, client.device, COPY)[0] == Status.OK
        assert sim.used() == 3 * EACH
        assert client.free(first) == Status.OK
        assert sim.used() == 2 * EACH
    assert sim.used() == 0


def test_no_figure_of_a_process_has_it(sim: Sim, client: Client) -> None:
    """The driver counts memory that a process asked for only (gpu_rmapi.c)."""
    assert group(client, GRAPHICS)[0] == Status.OK
    assert client.alloc_memory(PAGE_BIG)[0] == Status.OK
    assert sim.used() == EACH + PAGE_BIG
    assert client.pid_memory(os.getpid()) == (PAGE_BIG, 0, 0)


def test_wrong_requests(sim: Sim, client: Client) -> None:
    """Each has the driver's status and takes nothing."""
    assert client.alloc(client.device, GROUP)[0] == Status.INVALID_ARGUMENT
    assert client.alloc(client.device, CHANNEL)[0] == Status.INVALID_ARGUMENT
    assert group(client, GRAPHICS + 1)[0] == Status.INVALID_ARGUMENT
    assert group(client, GRAPHICS, space=0x77)[0] == Status.NOT_FOUND
    assert group(client, GRAPHICS, parent=client.subdevice)[0] == Status.INVALID_PARENT
    assert channel(client, client.subdevice, GRAPHICS)[0] == Status.INVALID_PARENT
    assert sim.used() == 0


def test_a_group_ends_with_its_address_space(sim: Sim, client: Client) -> None:
    """As everything does that the driver made for one."""
    _, space = client.alloc(client.device, SPACE, bytearray(64))
    assert group(client, GRAPHICS, space)[0] == Status.OK
    assert group(client, GRAPHICS, space)[0] == Status.OK
    assert group(client, GRAPHICS)[0] == Status.OK
    assert sim.used() == 3 * EACH
    assert client.free(space) == Status.OK
    assert sim.used() == EACH


def test_a_duplicate_keeps_it(sim: Sim) -> None:
    """A group can be duplicated, a channel cannot."""
    with sim.client() as client, sim.client() as other:
        _, made = group(client, GRAPHICS)
        assert other.dup(client, made)[0] == Status.OK
        assert client.free(made) == Status.OK
        assert sim.used() == EACH
        _, made = channel(client, client.device, COPY)
        assert other.dup(client, made)[0] == Status.INVALID_ARGUMENT


def test_newer_cards_have_to_be_told_the_engine(start: Start) -> None:
    """And take more for a context."""
    sim = start("A10")
    with sim.client() as client:
        assert group(client, 0)[0] == Status.INVALID_ARGUMENT
        assert group(client, GRAPHICS)[0] == Status.OK
        assert sim.used() == 35 * MIB


def test_a_full_card_has_no_context(start: Start) -> None:
    """The memory must be there; how much of it, the server can be told."""
    sim = start("T4=100", "580.142", "--context-memory", "60")
    with sim.client() as client:
        assert group(client, GRAPHICS)[0] == Status.OK
        assert group(client, GRAPHICS)[0] == Status.NO_MEMORY
        assert client.alloc(client.device, VIDEO, client.memory(41 * MIB))[0] == Status.NO_MEMORY
        assert client.alloc(client.device, VIDEO, client.memory(40 * MIB))[0] == Status.OK
        assert sim.used() == 100 * MIB
