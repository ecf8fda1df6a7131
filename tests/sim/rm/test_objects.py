# SPDX-License-Identifier: Apache-2.0
"""Clients, objects, rights and life cycles."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from tests.integration.commands import eventually
from tests.sim.abi import DEVICE, FB_INFO_V2, HOST, PAGE_BIG, ROOT, SUBDEVICE, VIDEO, Status
from tests.sim.client import Client
from tests.sim.support import Sim


def test_root_classes_become_one(sim: Sim, client: Client) -> None:
    """Classes 0, 1 and 0x41 all make a client of class 0x41."""
    for class_id in (0, 1, ROOT):
        form = sim.layout("NVOS64_PARAMETERS")
        data = form.pack(hClass=class_id)
        client.call(0x2B, data)
        assert form.get(data, "status") == Status.OK
        assert form.get(data, "hClass") == ROOT
        assert form.get(data, "hObjectNew") != 0


def test_client_belongs_to_its_description(sim: Sim) -> None:
    """A handle is refused through another description, and accepted through a copy of the same one."""
    with sim.client() as client:
        stranger = Client(sim, sim.open())
        own = stranger.handle
        stranger.handle = client.handle
        assert stranger.free(client.handle) == Status.INVALID_CLIENT
        assert stranger.alloc_memory(PAGE_BIG)[0] == Status.INVALID_CLIENT
        assert stranger.control(client.subdevice, FB_INFO_V2, bytearray(1028)) == Status.INVALID_CLIENT
        assert stranger.heap(5)[0] == Status.INVALID_CLIENT
        stranger.handle = own
        stranger.free(own)
        os.close(stranger.ctl)
        stranger.ctl = os.dup(client.ctl)
        stranger.handle = client.handle
        assert stranger.alloc(client.device, VIDEO, client.memory(PAGE_BIG))[0] == Status.OK
        stranger.close()
    assert sim.used() == 0


def test_unknown_client(client: Client) -> None:
    """A client that does not exist has a status of its own kind for controls."""
    own, client.handle = client.handle, 0xDEAD
    assert client.free(1) == Status.INVALID_OBJECT_HANDLE
    assert client.control(1, FB_INFO_V2, bytearray(1028)) == Status.INVALID_CLIENT
    client.handle = own


def test_handles(sim: Sim, client: Client) -> None:
    """The driver chooses a handle for 0, takes one that is given, and refuses one that exists."""
    status, chosen, _ = client.alloc_memory(PAGE_BIG)
    assert (status, chosen != 0) == (Status.OK, True)
    assert client.alloc_memory(PAGE_BIG, handle=0x1234)[:2] == (Status.OK, 0x1234)
    assert client.alloc_memory(PAGE_BIG, handle=0x1234)[0] == Status.DUPLICATE_NAME
    assert client.alloc_memory(PAGE_BIG, handle=client.handle)[0] == Status.INVALID_OBJECT_HANDLE
    assert sim.used() == 2 * PAGE_BIG
    status, other = client.alloc(0, ROOT, handle=client.handle)
    assert (status, other) == (Status.DUPLICATE_NAME, client.handle)


def test_parents(client: Client) -> None:
    """Every class asks for its parent."""
    memory = client.memory(PAGE_BIG)
    assert client.alloc(client.handle, VIDEO, memory)[0] == Status.INVALID_PARENT
    assert client.alloc(0x999, VIDEO, memory)[0] == Status.INVALID_PARENT
    assert client.alloc(client.subdevice, VIDEO, memory)[0] == Status.OK
    assert client.alloc(client.handle, SUBDEVICE)[0] == Status.INVALID_PARENT
    device = client.params("NV0080_ALLOC_PARAMETERS")
    assert client.alloc(client.device, DEVICE, device)[0] == Status.INVALID_PARENT
    assert client.alloc(client.handle, DEVICE)[0] == Status.INVALID_ARGUMENT
    device = client.params("NV0080_ALLOC_PARAMETERS", deviceId=2)
    assert client.alloc(client.handle, DEVICE, device)[0] == Status.INVALID_CLASS


def test_numbers_of_devices(sim: Sim) -> None:
    """A card has the first number that was free when its node was opened, until the last close."""
    with sim.client(1) as first:
        assert (first.number(0), first.number(1)) == (None, 0)
        taken = first.params("NV0080_ALLOC_PARAMETERS", deviceId=1)
        assert first.alloc(first.handle, DEVICE, taken)[0] == Status.INVALID_CLASS
        with sim.client(0) as second:
            assert (second.number(0), second.number(1)) == (1, 0)
            assert second.alloc_memory(PAGE_BIG)[0] == Status.OK
            assert (sim.used(0), sim.used(1)) == (PAGE_BIG, 0)
            first.close()
            eventually(lambda: second.number(1) is None, "the card is still attached")
            assert second.number(0) == 1
            assert second.attach(1) == 0


def test_known_and_unknown_classes(sim: Sim, client: Client) -> None:
    """Known classes are plain objects, others are refused; host memory takes nothing from the card."""
    status, space = client.alloc(client.device, 0x90F1, bytearray(64))
    assert status == Status.OK
    assert client.alloc(space, 0x9067, bytearray(64))[0] == Status.OK
    assert client.alloc(client.device, 0x7777)[0] == Status.INVALID_CLASS
    host = client.memory(12345, attr=1 << 25)
    assert client.alloc(client.device, HOST, host)[0] == Status.OK
    assert sim.layout("NV_MEMORY_ALLOCATION_PARAMS").get(host, "size") == 16384
    assert client.alloc(client.device, HOST, client.memory(4096))[0] == Status.INVALID_ARGUMENT
    assert sim.used() == 0


def in_child(job: Callable[[], int]) -> int:
    """Run a function in a forked process and return what it returns."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = job()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_privileged_classes(client: Client) -> None:
    """Classes that alias the whole card need CAP_SYS_ADMIN of the calling task; the console's never opens."""
    for class_id in (0xC2, 0x81, 0x82, 0x83):
        assert client.alloc(client.device, class_id, bytearray(512))[0] == Status.OK
        assert client.alloc(client.device, class_id)[0] == Status.INVALID_ARGUMENT
    assert client.alloc(client.device, 0x76)[0] == Status.INSUFFICIENT_PERMISSIONS

    def without_rights() -> int:
        os.setresuid(65534, 65534, 65534)
        return client.alloc(client.device, 0xC2)[0]

    assert in_child(without_rights) == Status.INSUFFICIENT_PERMISSIONS


def test_free_takes_children(sim: Sim, client: Client) -> None:
    """Freeing an object frees all below it; a handle that is not there counts as freed."""
    for _ in range(3):
        assert client.alloc(client.subdevice, VIDEO, client.memory(PAGE_BIG))[0] == Status.OK
    assert client.alloc_memory(PAGE_BIG)[0] == Status.OK
    assert client.free(client.subdevice) == Status.OK
    assert sim.used() == PAGE_BIG
    assert client.free(client.device) == Status.OK
    assert sim.used() == 0
    assert client.free(0x4242) == Status.OK
    assert client.free(client.handle) == Status.OK
    assert client.free(client.handle) == Status.INVALID_OBJECT_HANDLE


def test_dup_counts_references(sim: Sim) -> None:
    """Memory lives until its last handle goes, in whatever order they go."""
    with sim.client() as client, sim.client() as other:
        _, handle, _ = client.alloc_memory(PAGE_BIG)
        assert client.dup(client, handle, as_handle=7) == (Status.OK, 7)
        assert client.dup(client, handle, as_handle=7)[0] == Status.DUPLICATE_NAME
        status, copy = other.dup(client, handle)
        assert status == Status.OK
        assert sim.used() == PAGE_BIG
        client.free(handle)
        client.free(7)
        assert sim.used() == PAGE_BIG
        other.free(copy)
        assert sim.used() == 0


def test_dup_refusals(sim: Sim, client: Client) -> None:
    """A dup needs a source that exists, of a kind that can be duplicated, in the same process."""
    _, handle, _ = client.alloc_memory(PAGE_BIG)
    assert client.dup_raw(0xDEAD, handle)[0] == Status.INVALID_OBJECT_HANDLE
    assert client.dup_raw(client.handle, 0xDEAD)[0] == Status.NOT_FOUND
    assert client.dup_raw(client.handle, client.device)[0] == Status.INVALID_ARGUMENT

    def elsewhere() -> int:
        with sim.client() as other:
            return other.dup(client, handle)[0]

    assert in_child(elsewhere) == Status.INSUFFICIENT_PERMISSIONS


def test_last_close_frees(sim: Sim) -> None:
    """All memory of a description goes with its last copy: after dup, fork and passing, not before."""
    client = sim.client()
    client.alloc_memory(PAGE_BIG)
    copy = os.dup(client.ctl)
    client.close()
    assert sim.used() == PAGE_BIG
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.close(copy)
        ours.close()
        fd = socket.recv_fds(theirs, 1, 1)[1][0]
        theirs.sendall(b"have it")
        theirs.recv(1)
        os.close(fd)
        os._exit(0)
    theirs.close()
    socket.send_fds(ours, [b"x"], [copy])
    assert ours.recv(16) == b"have it"
    os.close(copy)
    assert sim.used() == PAGE_BIG
    ours.close()
    assert os.waitpid(pid, 0)[1] == 0
    assert sim.settles(0, 0)


def test_kill_frees(sim: Sim) -> None:
    """What a killed process held is free at once."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        sim.client().alloc_memory(PAGE_BIG)
        theirs.sendall(b"x")
        theirs.recv(1)
        os._exit(0)
    ours.recv(1)
    assert sim.used() == PAGE_BIG
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    ours.close()
    theirs.close()
    assert sim.settles(0, 0)


def test_two_cards(sim: Sim) -> None:
    """Memory of one card is not memory of the other."""
    with sim.client(0) as first, sim.client(1) as second:
        first.alloc_memory(PAGE_BIG)
        second.alloc_memory(3 * PAGE_BIG)
        assert (sim.used(0), sim.used(1)) == (PAGE_BIG, 3 * PAGE_BIG)
