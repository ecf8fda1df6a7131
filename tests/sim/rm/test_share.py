# SPDX-License-Identifier: Apache-2.0
"""Who may duplicate an object of another process: nobody, until the owner says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from tests.sim.abi import PAGE_BIG, Status
from tests.sim.client import Client
from tests.sim.support import Sim

ALL, CLIENT, PID = 1, 3, 4
REVOKE, REQUIRE, COMPOSE = 1, 2, 4


class Elsewhere:
    """A client of another process, which duplicates what it is told to and keeps it."""

    def __init__(self, channel: Connection) -> None:
        """channel: what leads to that process."""
        self._channel = channel
        self.handle: int = channel.recv()

    def _ask(self, *words: int) -> int:
        self._channel.send(words)
        status: int = self._channel.recv()
        return status

    def dup(self, source: Client, handle: int) -> int:
        """Return the status of a duplicate."""
        return self._ask(source.handle, handle)

    def share(self, source: Client, handle: int, share_type: int) -> int:
        """Return the status of a share of another client's object with this one."""
        return self._ask(source.handle, handle, share_type)


def serve(sim: Sim, channel: Connection) -> None:
    with sim.client() as own, suppress(EOFError):
        channel.send(own.handle)
        while words := channel.recv():
            if len(words) == 2:
                status = own.dup_raw(*words)[0]
            else:
                status = own.share(words[1], words[2], own.handle, owner=words[0])
            channel.send(status)


@contextmanager
def elsewhere(sim: Sim) -> Iterator[Elsewhere]:
    """Give a client of another process for a while."""
    ours, theirs = Pipe()
    pid = os.fork()
    if pid == 0:
        ours.close()
        code = 99
        try:
            serve(sim, theirs)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    with ours:
        yield Elsewhere(ours)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("kind", [ALL, CLIENT])
def test_only_after_a_share(sim: Sim, kind: int) -> None:
    """Another process may not, then it may, and what it has outlives the original."""
    with elsewhere(sim) as other:
        with sim.client() as client:
            _, handle, _ = client.alloc_memory(PAGE_BIG)
            assert other.dup(client, handle) == Status.INSUFFICIENT_PERMISSIONS
            assert client.share(handle, kind, other.handle) == Status.OK
            assert other.dup(client, handle) == Status.OK
        assert sim.used() == PAGE_BIG
    assert sim.settles(0, 0)


def test_one_client_is_not_all(sim: Sim) -> None:
    """What is shared with one client, or with one's own process, is not shared with others."""
    with sim.client() as client, elsewhere(sim) as friend, elsewhere(sim) as other:
        _, handle, _ = client.alloc_memory(PAGE_BIG)
        assert client.share(handle, CLIENT, friend.handle) == Status.OK
        assert client.share(handle, PID, action=COMPOSE) == Status.OK
        assert other.dup(client, handle) == Status.INSUFFICIENT_PERMISSIONS
        assert friend.dup(client, handle) == Status.OK


def test_lists(sim: Sim) -> None:
    """A share takes the place of what was there, or comes beside it; it can be taken back."""
    with sim.client() as client, sim.client() as sibling, elsewhere(sim) as other:
        _, handle, _ = client.alloc_memory(PAGE_BIG)
        assert client.share(handle, ALL, action=COMPOSE) == Status.OK
        assert client.share(handle, ALL, action=COMPOSE | REVOKE) == Status.OK
        assert other.dup(client, handle) == Status.INSUFFICIENT_PERMISSIONS
        assert sibling.dup(client, handle)[0] == Status.OK
        assert client.share(handle, CLIENT, other.handle) == Status.OK
        assert sibling.dup(client, handle)[0] == Status.INSUFFICIENT_PERMISSIONS
        assert client.dup(client, handle)[0] == Status.OK
        assert client.share(handle, ALL, action=COMPOSE) == Status.OK
        assert client.share(handle, PID, action=COMPOSE | REQUIRE) == Status.OK
        assert other.dup(client, handle) == Status.INSUFFICIENT_PERMISSIONS
        assert sibling.dup(client, handle)[0] == Status.OK


def test_children_go_by_their_parents(sim: Sim) -> None:
    """What nothing was said of is shared as its device is, and as the client is; a duplicate is not."""
    with sim.client() as client, elsewhere(sim) as other:
        _, handle, _ = client.alloc_memory(PAGE_BIG)
        _, below, _ = client.alloc_memory(PAGE_BIG)
        assert client.share(below, PID) == Status.OK
        assert client.share(client.device, ALL) == Status.OK
        assert other.dup(client, handle) == Status.OK
        assert other.dup(client, below) == Status.INSUFFICIENT_PERMISSIONS
        with sim.client() as sibling:
            assert sibling.share(sibling.handle, ALL) == Status.OK
            _, own, _ = sibling.alloc_memory(PAGE_BIG)
            assert other.dup(sibling, own) == Status.OK
            _, copy = client.dup(sibling, own)
            assert client.share(client.device, PID) == Status.OK
            assert other.dup(client, copy) == Status.INSUFFICIENT_PERMISSIONS


def test_refusals(sim: Sim) -> None:
    """What there is not, rights that nobody has, other clients' objects: but not where a client is named."""
    with sim.client() as client, sim.client() as stranger, elsewhere(sim) as other:
        _, handle, _ = client.alloc_memory(PAGE_BIG)
        assert client.share(handle, 8) == Status.INVALID_ARGUMENT
        assert client.share(0x4242, ALL) == Status.NOT_FOUND
        assert client.share(handle, ALL, owner=0xDEAD) == Status.INVALID_OBJECT_HANDLE
        assert client.share(handle, CLIENT, 0xDEAD) == Status.INVALID_OBJECT_HANDLE
        assert client.share(handle, ALL, mask=2) == Status.INSUFFICIENT_PERMISSIONS
        assert stranger.share(handle, ALL, owner=client.handle) == Status.INVALID_CLIENT
        assert other.share(client, handle, ALL) == Status.INVALID_CLIENT
        assert other.dup(client, handle) == Status.INSUFFICIENT_PERMISSIONS
        assert other.share(client, handle, CLIENT) == Status.OK
        assert other.dup(client, handle) == Status.OK
