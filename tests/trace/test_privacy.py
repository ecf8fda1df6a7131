# SPDX-License-Identifier: Apache-2.0
"""Nothing of a program's memory is in a trace but the fields that the tables name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cgpu.trace import names
from tests.trace.support import Recorder, calls

pytestmark = pytest.mark.root
MARK = b"SECRET-PAYLOAD-7"
# Calls with the mark wherever bytes can be: unknown calls, unknown parameters, text, lists, wrappers.
PROGRAM = """
import ctypes, fcntl, struct
MARK = b"SECRET-PAYLOAD-7"
ctl = os.open(MOUNT + "/nvidiactl", os.O_RDWR)
libc = ctypes.CDLL(None)
keep = []
def at(data):
    keep.append(ctypes.create_string_buffer(data, len(data)))
    return ctypes.addressof(keep[-1])
def call(nr, data):
    libc.ioctl(ctl, ctypes.c_ulong(3 << 30 | len(data) << 16 | 0x46 << 8 | nr), ctypes.c_void_p(at(data)))
for nr in range(256):
    call(nr, MARK * 8)
call(210, struct.pack("<II", 50, 0) + MARK * 4)
call(42, struct.pack("<IIIIQII", 1, 1, 0x20801234, 0, at(MARK * 64), 1024, 0))
asked = struct.pack("<IIQ", 4, 0, at(MARK * 4)) + MARK
call(42, struct.pack("<IIIIQII", 1, 1, 0x20801301, 0, at(asked), 32, 0))
call(43, struct.pack("<IIIIQQIIII", 1, 1, 1, 0x9067, at(MARK * 64), at(MARK), 1024, 0, 0, 0))
call(43, struct.pack("<IIIIQQIIII", 1, 1, 1, 0x40, at(MARK * 8), at(MARK), 128, 1, 0, 0))
call(43, struct.pack("<IIIIQQIIII", 0, 0, 0, 0x41, at(struct.pack("<II", 0, 0) + MARK * 7), 0, 120, 0, 0, 0))
call(211, struct.pack("<IIQ", 250, 64, at(MARK * 4)))
call(74, struct.pack("<IIIIHxxI", 1, 1, 27, 0, 0, 0) + bytes(16) + MARK * 9)
"""


def spellings(mark: bytes) -> list[str]:
    """Return how bytes could look in a text: as themselves, in hexadecimal, as numbers of any width."""
    found = [mark.decode(), mark.hex()]
    for width in (4, 8):
        parts = [mark[at : at + width] for at in range(len(mark) - width + 1)]
        found += [str(int.from_bytes(part, "little")) for part in parts]
    return found


def test_no_payload(recorder: Recorder) -> None:
    """A mark in every buffer is nowhere in the trace, but in numbers that the tables name."""
    trace = recorder.python(PROGRAM)
    text = recorder.file.read_text()
    assert len([event for event in trace.events if event.is_driver_call]) > 250
    assert MARK.decode() not in text
    assert MARK.hex() not in text
    # Known calls in the mark's own size do not exist: so no field of it was read as a number either.
    for spelling in spellings(MARK):
        assert spelling not in text, spelling


def numbers_of(value: object) -> Iterator[int]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from numbers_of(one)
    elif isinstance(value, int):
        yield value


@pytest.mark.parametrize("bits", [64, 32])
def test_no_addresses(recorder: Recorder, bits: int) -> None:
    """No number in a trace is an address of the program: pointers are set or not."""
    trace = recorder.probe("info", "alloc=64K", "host=1M", "xfer", "via=heap", "alloc=64K", bits=bits)
    for event in trace.events:
        pointers = [name for name, kind in names.kinds(event.form).items() if kind == "pointer"]
        assert {event.given.get(name) for name in pointers} <= {None, True}
    assert all(
        value < 1 << 36
        for line in recorder.file.read_text().splitlines()
        for value in numbers_of(json.loads(line))
    )


def test_no_process_numbers(recorder: Recorder) -> None:
    """Processes, threads and open files are counted from one."""
    trace = recorder.probe("fork=2:64K", "threads=2:64K")
    assert {event.pid for event in trace.events} == {1, 2, 3}
    assert {event.tid for event in trace.events} == {1, 2, 3, 4, 5}
    files = {event.file for event in trace.events if event.file}
    assert files == set(range(1, len(files) + 1))


def test_arguments_stay_out(recorder: Recorder) -> None:
    """Of the command only the base name is recorded."""
    done = recorder.run(["/bin/echo", "my-password"])
    assert done.returncode == 0
    text = recorder.file.read_text()
    assert '"command":"echo"' in text
    assert "password" not in text
    assert "/bin" not in text


def test_serialized_parameters(recorder: Recorder) -> None:
    """Parameters in the other encoding are not read by tables that are not theirs."""
    trace = recorder.python(PROGRAM)
    serialized = [event for event in calls(trace, "NV_ESC_RM_ALLOC") if event.given.get("flags") == 1]
    assert [event.params for event in serialized] == [None]
