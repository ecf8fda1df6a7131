# SPDX-License-Identifier: Apache-2.0
"""Questions about memory, cards and processes."""

from __future__ import annotations

import os
import subprocess
import uuid

from tests.sim.abi import (
    ATTACHED,
    FB_INFO_V1,
    FB_INFO_V2,
    GID,
    HEAP_FREE,
    HEAP_SIZE,
    ID_INFO,
    MIB,
    NAME,
    PAGE_BIG,
    PIDS,
    REGIONS,
    Status,
    address,
)
from tests.sim.client import Client
from tests.sim.conftest import Start
from tests.sim.rm.test_objects import in_child
from tests.sim.support import Sim, fields

T4 = 15109 * MIB


def fb_info_v1(client: Client, indices: list[int], count: int | None = None) -> tuple[int, list[int]]:
    """Ask the older question: status and values."""
    items = bytearray(b"".join(index.to_bytes(8, "little") for index in indices))
    params = client.params(
        "NV2080_CTRL_FB_GET_INFO_PARAMS",
        fbInfoListSize=len(indices) if count is None else count,
        fbInfoList=address(items),
    )
    status = client.control(client.subdevice, FB_INFO_V1, params)
    return status, [int.from_bytes(items[8 * i + 4 :][:4], "little") for i in range(len(indices))]


def test_memory_in_both_forms(client: Client) -> None:
    """Both forms of FB_GET_INFO tell the same sizes in KiB, and they follow what is taken."""
    sizes = [0x7, 0x8, 0x9, 0xA, 0x20]
    free = [0x12, 0x16]
    assert client.fb_info(*sizes) == [T4 >> 10] * 5
    assert client.fb_info(*free) == [T4 >> 10] * 2
    client.alloc_memory(PAGE_BIG)
    assert client.fb_info(*sizes) == [T4 >> 10] * 5
    assert client.fb_info(*free) == [(T4 - PAGE_BIG) >> 10] * 2
    assert fb_info_v1(client, sizes + free)[1] == client.fb_info(*sizes, *free)


def test_fb_info_limits(client: Client) -> None:
    """Too long a list, an empty old one and an unknown index are refused."""
    assert fb_info_v1(client, [9], count=0)[0] == Status.INVALID_ARGUMENT
    assert fb_info_v1(client, [9], count=1 << 30)[0] == Status.INVALID_ARGUMENT
    assert fb_info_v1(client, [5000])[0] == Status.INVALID_ARGUMENT
    params = client.params("NV2080_CTRL_FB_GET_INFO_V2_PARAMS", fbInfoListSize=129)
    assert client.control(client.subdevice, FB_INFO_V2, params) == Status.INVALID_ARGUMENT
    params = client.params("NV2080_CTRL_FB_GET_INFO_PARAMS", fbInfoListSize=1, fbInfoList=8)
    assert client.control(client.subdevice, FB_INFO_V1, params) == Status.INVALID_ADDRESS


def test_regions(sim: Sim, client: Client) -> None:
    """One region spans the card."""
    form = sim.layout("NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS")
    params = form.pack()
    assert client.control(client.subdevice, REGIONS, params) == Status.OK
    assert form.get(params, "numFBRegions") == 1
    assert params[8:24] == bytes(8) + (T4 - 1).to_bytes(8, "little")


def test_control_checks(client: Client) -> None:
    """A control is refused for a wrong size, object or number, and a size beyond 1 MiB."""
    good = client.params("NV2080_CTRL_FB_GET_INFO_V2_PARAMS")
    assert client.control(client.subdevice, FB_INFO_V2, good[:-4]) == Status.INVALID_ARGUMENT
    assert client.control(client.device, FB_INFO_V2, good) == Status.NOT_SUPPORTED
    assert client.control(0x999, FB_INFO_V2, good) == Status.NOT_FOUND
    assert client.control(client.subdevice, 0x20807FFF, good) == Status.NOT_SUPPORTED
    assert client.control(client.subdevice, 0x20807FFF, None) == Status.NOT_SUPPORTED
    assert client.control(client.subdevice, 0x20807FFF, bytearray(MIB + 1)) == Status.INVALID_ARGUMENT


def test_size_of_the_old_form(client: Client) -> None:
    """The older FB_GET_INFO takes its structure whatever size is named, as seen on the real 550.163.01."""
    wanted = bytearray((0x9).to_bytes(4, "little") + bytes(4))
    params = client.params("NV2080_CTRL_FB_GET_INFO_PARAMS", fbInfoListSize=1, fbInfoList=address(wanted))
    assert client.control(client.subdevice, FB_INFO_V1, params + bytes(4)) == Status.OK
    assert int.from_bytes(wanted[4:], "little") == T4 >> 10


def test_cards(sim: Sim) -> None:
    """The list of cards, their numbers, UUIDs in both forms, and names."""
    with sim.client(0) as client:
        client.attach(1)
        ids = client.params("NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS")
        assert client.control(client.handle, ATTACHED, ids) == Status.OK
        numbers = [int.from_bytes(ids[i : i + 4], "little") for i in range(0, 128, 4)]
        assert numbers[2:] == [0xFFFFFFFF] * 30
        form = sim.layout("NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS")
        for instance, number in enumerate(numbers[:2]):
            params = form.pack(gpuId=number)
            assert client.control(client.handle, ID_INFO, params) == Status.OK
            assert form.get(params, "deviceInstance") == instance
        assert client.control(client.handle, ID_INFO, form.pack(gpuId=12345)) == Status.INVALID_ARGUMENT
        gid = sim.layout("NV2080_CTRL_GPU_GET_GID_INFO_PARAMS")
        text, binary = gid.pack(), gid.pack(flags=2)
        assert client.control(client.subdevice, GID, text) == Status.OK
        assert client.control(client.subdevice, GID, binary) == Status.OK
        assert (gid.get(text, "length"), gid.get(binary, "length")) == (41, 16)
        assert text[12:52] == f"GPU-{uuid.UUID(bytes=bytes(binary[12:28]))}".encode()
        name = client.params("NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS")
        assert client.control(client.subdevice, NAME, name) == Status.OK
        assert name[4:].rstrip(b"\0") == b"Tesla T4"


def pid_list(client: Client) -> list[int]:
    """Return the processes on the client's card."""
    form = client.sim.layout("NV2080_CTRL_GPU_GET_PIDS_PARAMS")
    params = form.pack(id=0x2080)
    assert client.control(client.subdevice, PIDS, params) == Status.OK
    count = form.get(params, "pidTblCount")
    return [int.from_bytes(params[12 + 4 * i : 16 + 4 * i], "little") for i in range(count)]


def test_processes(sim: Sim) -> None:
    """A process is listed once on the cards it uses, with what it holds; shared memory is told apart."""
    with sim.client() as client, sim.client() as second, sim.client(1) as other:
        assert pid_list(client) == [os.getpid()]
        assert pid_list(other) == [os.getpid()]
        _, handle, _ = client.alloc_memory(3 * PAGE_BIG)
        second.alloc_memory(PAGE_BIG)
        assert client.pid_memory(os.getpid()) == (4 * PAGE_BIG, 0, 0)
        assert other.pid_memory(os.getpid()) == (0, 0, 0)
        client.dup(client, handle)
        assert client.pid_memory(os.getpid()) == (PAGE_BIG, 3 * PAGE_BIG, 3 * PAGE_BIG)
        assert client.pid_memory(1) == (0, 0, 0)


def in_namespace(sim: Sim, *words: str) -> str:
    """Run the probe as the first process of a pid namespace of its own."""
    command = ["/usr/bin/unshare", "--pid", "--fork", *sim.command(*words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


def test_process_numbers_of_the_caller(sim: Sim) -> None:
    """In a pid namespace a process sees its own number there, and none of those outside."""
    with sim.client() as outside:
        outside.alloc_memory(PAGE_BIG)
        lines = in_namespace(sim, "alloc=128K", "pids").splitlines()
    assert lines[1] == f"pid 1 bytes={128 << 10}"
    assert fields(lines[2])["count"] == "1"


def test_memory_by_the_hosts_number(start: Start) -> None:
    """Before 565.57.01 the list has numbers of the caller's, and memory is asked for by those of the host."""
    sim = start("T4", "560.35.03")
    lines = in_namespace(sim, "alloc=128K", "pids").splitlines()
    assert lines[1:2] == ["pid 1 bytes=0"]
    with sim.client() as client:
        client.alloc_memory(PAGE_BIG)
        assert client.pid_memory(os.getpid()) == (PAGE_BIG, 0, 0)


def test_process_numbers_before_535_113(start: Start) -> None:
    """Drivers before 535.113.01 told the numbers of the initial namespace to everyone."""
    sim = start("T4", "535.104.05")
    with sim.client():
        lines = in_namespace(sim, "pids").splitlines()
    assert fields(lines[-1])["count"] == "2"
    assert any(line.startswith(f"pid {os.getpid()} ") for line in lines)


def test_a_dead_process_is_not_listed(sim: Sim) -> None:
    """A client that outlives its process, because its descriptor was passed on, has no process to list."""
    fd = sim.open()
    assert in_child(lambda: Client(sim, fd).alloc_memory(PAGE_BIG)[0]) == Status.OK
    with sim.client() as client:
        assert pid_list(client) == [os.getpid()]
        total, free = client.fb_info(HEAP_SIZE, HEAP_FREE)
        assert (total - free) << 10 == PAGE_BIG
    os.close(fd)
    assert sim.settles(0, 0)
