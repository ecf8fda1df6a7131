# SPDX-License-Identifier: Apache-2.0
"""Objects that go to others by way of a descriptor."""

from __future__ import annotations

import os
import socket

import pytest

from tests.sim.abi import PAGE_BIG, VIDEO, Status
from tests.sim.client import Client
from tests.sim.conftest import Start
from tests.sim.support import Sim

EXPORT, IMPORT, INFO, CREATE, EXPORTS, IMPORTS = 0x3D05, 0x3D06, 0x3D08, 0x3D0A, 0x3D0B, 0x3D0C
INVALID_PARAMETER, OUT_OF_RANGE, STATE_IN_USE = 0x3B, 0x5B, 0x63
PREFIX = "NV0000_CTRL_OS_UNIX_"
METADATA = bytes(range(64))


def control(client: Client, number: int, name: str, **values: int) -> tuple[int, bytearray]:
    """Make a control on the client itself: status and parameters."""
    params = client.params(f"{PREFIX}{name}_PARAMS", **values)
    return client.control(client.handle, number, params), params


def export(client: Client, handle: int, fd: int, **values: int) -> int:
    """Export one object on a descriptor."""
    given = {"object__type": 1, "object__data__rmObject__hDevice": client.device, **values}
    given |= {"object__data__rmObject__hObject": handle, "fd": fd}
    return control(client, EXPORT, "EXPORT_OBJECT_TO_FD", **given)[0]


def import_(client: Client, fd: int, handle: int = 0, parent: int | None = None) -> tuple[int, int]:
    """Import one object: status and handle."""
    parent = client.device if parent is None else parent
    name = "IMPORT_OBJECT_FROM_FD"
    given = {"object__type": 1, "object__data__rmObject__hParent": parent, "fd": fd}
    status, params = control(client, IMPORT, name, **given, object__data__rmObject__hObject=handle)
    form = client.sim.layout(f"{PREFIX}{name}_PARAMS")
    return status, form.get(params, "object.data.rmObject.hObject")


def put_list(client: Client, name: str, params: bytearray, handles: list[int]) -> None:
    """Write the list of a multi-object call."""
    at = client.sim.layout(f"{PREFIX}{name}_PARAMS").fields["objects"][0]
    for i, handle in enumerate(handles):
        params[at + 4 * i : at + 4 * i + 4] = handle.to_bytes(4, "little")


def exports(client: Client, fd: int, handles: list[int], **values: int) -> int:
    """Export several objects on a descriptor."""
    name = "EXPORT_OBJECTS_TO_FD"
    given = {"fd": fd, "hDevice": client.device, "numObjects": len(handles), **values}
    params = client.params(f"{PREFIX}{name}_PARAMS", **given)
    at = client.sim.layout(f"{PREFIX}{name}_PARAMS").fields["metadata"][0]
    params[at : at + 64] = METADATA
    put_list(client, name, params, handles)
    return client.control(client.handle, EXPORTS, params)


def imports(client: Client, fd: int, handles: list[int], **values: int) -> tuple[int, list[int], list[int]]:
    """Import several objects: status, handles and types."""
    name = "IMPORT_OBJECTS_FROM_FD"
    given = {"fd": fd, "hParent": client.device, "numObjects": len(handles), **values}
    params = client.params(f"{PREFIX}{name}_PARAMS", **given)
    put_list(client, name, params, handles)
    status = client.control(client.handle, IMPORTS, params)
    form = client.sim.layout(f"{PREFIX}{name}_PARAMS")
    at, types = form.fields["objects"][0], form.fields["objectTypes"][0]
    found = [int.from_bytes(params[at + 4 * i :][:4], "little") for i in range(len(handles))]
    return status, found, list(params[types : types + len(handles)])


def memory(client: Client) -> int:
    status, handle, _ = client.alloc_memory(PAGE_BIG)
    assert status == Status.OK
    return handle


def test_export_lives_until_the_descriptor_is_closed(sim: Sim) -> None:
    """What is exported stays when its object and its client are gone, until its file is closed."""
    fd = sim.open()
    with sim.client() as client:
        handle = memory(client)
        assert export(client, handle, fd) == Status.OK
        assert client.free(handle) == Status.OK
        assert sim.used() == PAGE_BIG
    assert sim.used() == PAGE_BIG
    copy = os.dup(fd)
    os.close(fd)
    assert sim.used() == PAGE_BIG
    os.close(copy)
    assert sim.settles(0, 0)


def test_import_is_one_reference_more(sim: Sim) -> None:
    """An import is the same memory, and stays when all else is gone."""
    fd = sim.open()
    with sim.client() as other:
        with sim.client() as client:
            assert export(client, memory(client), fd) == Status.OK
            status, first = import_(client, fd)
            assert (status, first != 0) == (Status.OK, True)
            assert client.free(first) == Status.OK
        assert import_(other, fd, 0x77) == (Status.OK, 0x77)
        assert import_(other, fd, 0x77)[0] == Status.DUPLICATE_NAME
        assert import_(other, fd, parent=0x999)[0] == Status.NOT_FOUND
        os.close(fd)
        assert sim.used() == PAGE_BIG
        assert other.free(0x77) == Status.OK
        assert sim.settles(0, 0)


def test_another_process_imports(sim: Sim) -> None:
    """A descriptor that was passed on carries the memory with it."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            fd = socket.recv_fds(theirs, 1, 1)[1][0]
            with sim.client() as client:
                code = import_(client, fd)[0]
        finally:
            os._exit(code)
    with sim.client() as client:
        fd = sim.open()
        assert export(client, memory(client), fd) == Status.OK
        socket.send_fds(ours, [b"x"], [fd])
        os.close(fd)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == Status.OK
    for end in (ours, theirs):
        end.close()
    assert sim.settles(0, 0)


def test_refusals(sim: Sim) -> None:
    """Wrong objects, kinds, descriptors and files that are in use are refused, and keep nothing."""
    fd, card, null = sim.open(), sim.open("nvidia0"), os.open("/dev/null", os.O_RDWR)
    with sim.client() as client:
        handle = memory(client)
        for bad in (card, null, 9999, 0xFFFFFFFF):
            assert export(client, handle, bad) == INVALID_PARAMETER
        assert export(client, 0x999, fd) == Status.NOT_FOUND
        assert export(client, client.device, fd) == Status.INVALID_ARGUMENT
        assert export(client, handle, fd, flags=1) == INVALID_PARAMETER
        assert export(client, handle, fd, object__type=0) == INVALID_PARAMETER
        assert export(client, handle, fd, object__data__rmObject__hDevice=handle) == INVALID_PARAMETER
        assert export(client, handle, fd, object__data__rmObject__hDevice=0x999) == Status.NOT_FOUND
        assert import_(client, fd)[0] == INVALID_PARAMETER
        assert control(client, INFO, "GET_EXPORT_OBJECT_INFO", fd=fd)[0] == INVALID_PARAMETER
        assert export(client, handle, fd) == Status.OK
        assert export(client, handle, fd) == STATE_IN_USE
        assert client.control(client.device, EXPORT, bytearray(24)) == Status.NOT_SUPPORTED
        assert client.control(client.handle, EXPORT, bytearray(20)) == Status.INVALID_ARGUMENT
    for one in (fd, card, null):
        os.close(one)
    assert sim.settles(0, 0)


def test_several_at_once(sim: Sim) -> None:
    """A file takes several objects, in ranges that replace each other, and gives them back."""
    fd = sim.open()
    with sim.client() as client:
        first, second, third = memory(client), memory(client), memory(client)
        assert exports(client, fd, [first], maxObjects=0) == INVALID_PARAMETER
        assert exports(client, fd, [first, 0, second], maxObjects=4) == Status.OK
        assert exports(client, fd, [third], index=4) == OUT_OF_RANGE
        assert exports(client, fd, [third], index=3) == Status.OK
        assert exports(client, fd, [second, 0x999], index=0) == Status.NOT_FOUND
        status, found, types = imports(client, fd, [0x71, 0x72, 0x73, 0x74])
        assert (status, found, types) == (Status.OK, [0x71, 0x72, 0x73, 0x74], [1, 0, 1, 1])
        for handle in (first, second, third, 0x71, 0x73, 0x74):
            assert client.free(handle) == Status.OK
        assert sim.used() == 3 * PAGE_BIG
        assert exports(client, fd, [0], index=3) == Status.OK
        assert sim.used() == 2 * PAGE_BIG
        assert imports(client, fd, [1, 2], index=3)[0] == OUT_OF_RANGE
        assert imports(client, fd, [0x75, 0x76, 0x75])[0] == Status.DUPLICATE_NAME
        assert client.free(0x75) == Status.OK
    assert sim.used() == 2 * PAGE_BIG
    os.close(fd)
    assert sim.settles(0, 0)


def test_objects_of_another_device(sim: Sim) -> None:
    """A file for several is for one device."""
    fd = sim.open()
    with sim.client() as client:
        params = client.params("NV0080_ALLOC_PARAMETERS", deviceId=client.attach(1))
        status, device = client.alloc(client.handle, 0x80, params)
        assert status == Status.OK
        status, handle = client.alloc(device, VIDEO, client.memory(PAGE_BIG))
        assert status == Status.OK
        assert exports(client, fd, [memory(client), handle], maxObjects=2) == INVALID_PARAMETER
        assert exports(client, fd, [handle], maxObjects=2, hDevice=device) == Status.OK
    os.close(fd)
    assert sim.settles(0, 0)
    assert sim.settles(1, 0)


@pytest.mark.parametrize("version", ["515.43.04", "525.47.04", "545.23.06", "595.45.04"])
def test_versions(start: Start, version: str) -> None:
    """What a file tells of itself, and what the form for one object takes from a file for several."""
    sim = start("T4", version)
    fd, empty = sim.open(), sim.open()
    with sim.client() as client:
        handle = memory(client)
        assert exports(client, fd, [handle], maxObjects=2) == Status.OK
        status, params = control(client, INFO, "GET_EXPORT_OBJECT_INFO", fd=fd)
        form = sim.layout(f"{PREFIX}GET_EXPORT_OBJECT_INFO_PARAMS")
        assert (status, form.get(params, "maxObjects")) == (Status.OK, 2)
        assert form.get(params, "deviceInstance") == 0
        at = form.fields["metadata"][0]
        assert params[at : at + 64] == METADATA
        newest = version == "595.45.04"
        assert import_(client, fd)[0] == (Status.OK if newest else INVALID_PARAMETER)
        given = {"fd": empty, "maxObjects": 1, "hDevice": 0}
        no_device = Status.NOT_FOUND if version == "515.43.04" else Status.OK
        assert control(client, CREATE, "CREATE_EXPORT_OBJECT_FD", **given)[0] == no_device
    os.close(fd)
    os.close(empty)
    assert sim.settles(0, 0)
    sim.stop()


def test_the_drivers_own_client(sim: Sim) -> None:
    """Its client for exports belongs to the process that exports first, which may copy from it."""
    fd = sim.open()
    with sim.client() as client:
        assert export(client, memory(client), fd) == Status.OK
        owner = client.handle + 1
        assert client.dup_raw(owner, 1)[0] in {Status.INVALID_ARGUMENT, Status.NOT_FOUND}
        found = [client.dup_raw(owner, handle)[0] for handle in range(1, 64)]
        assert found.count(Status.OK) == 1
        own, client.handle = client.handle, owner
        assert client.alloc_memory(PAGE_BIG)[0] == Status.INVALID_CLIENT
        client.handle = own
    os.close(fd)
    assert sim.settles(0, 0)
