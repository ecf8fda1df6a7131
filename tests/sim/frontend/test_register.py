# SPDX-License-Identifier: Apache-2.0
"""Tying a node of a card to an nvidiactl."""

from __future__ import annotations

import errno
import os

from tests.sim.abi import PAGE_BIG, REGISTER_FD, command, errno_of
from tests.sim.support import Sim


def register(fd: int, ctl: int) -> int:
    """Tie a node to an nvidiactl; returns errno."""
    return errno_of(fd, command(REGISTER_FD, 4), bytearray((ctl & 0xFFFFFFFF).to_bytes(4, "little")))


def test_register_rules(sim: Sim) -> None:
    """A node is tied once, to an nvidiactl of this driver, never to itself, another node or a chain."""
    ctl, card, other = sim.open(), sim.open("nvidia0"), sim.open()
    null = os.open("/dev/null", os.O_RDWR)
    for bad in (card, null, 9999, -1):
        assert register(card, bad) == errno.EINVAL
    assert register(ctl, ctl) == errno.EINVAL
    assert register(other, ctl) == 0
    assert register(card, other) == errno.EINVAL
    assert register(card, os.dup(ctl)) == 0
    assert register(card, ctl) == errno.EINVAL
    for fd in (card, other, null, ctl):
        os.close(fd)


def test_registered_node_keeps_the_client(sim: Sim) -> None:
    """The driver keeps nvidiactl alive as long as a node is tied to it."""
    client = sim.client()
    client.alloc_memory(PAGE_BIG)
    card = sim.open("nvidia0")
    assert register(card, client.ctl) == 0
    client.close()
    assert sim.used() == PAGE_BIG
    os.close(card)
    assert sim.settles(0, 0)
