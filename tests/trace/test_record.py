# SPDX-License-Identifier: Apache-2.0
"""What a trace of the probe says."""

from __future__ import annotations

import itertools

import pytest

from cgpu.trace.format import load
from tests.sim.conftest import Start
from tests.trace.support import MIB, RECORDER, Recorder, calls, memory, parameters

pytestmark = pytest.mark.root


def test_allocations(recorder: Recorder) -> None:
    """Sizes are there as asked and as given, with the driver's status."""
    trace = recorder.probe("alloc=64K", "alloc=3M:2m", "expect=0x51", "alloc=1T")
    asked = [(parameters(one).given["size"], parameters(one).out.get("size")) for one in memory(trace)]
    assert asked == [(65536, None), (3 * MIB, 4 * MIB), (1 << 40, None)]
    assert [(one.status, one.result) for one in memory(trace)] == [(0, 0), (0, 0), (0x51, 0)]


def test_header(recorder: Recorder) -> None:
    """The first line has versions, notes and the base name of the command."""
    done = recorder.run(["/bin/true"], "--note", "cuda=12.4", "--note", 'what="a b"\\')
    assert done.returncode == 0, done.stderr
    header = load(recorder.file).header
    assert (header.driver, header.layouts, header.command) == ("580.142", "580.142", "true")
    assert header.notes == {"cuda": "12.4", "what": '"a b"\\'}


def test_handles_are_consistent(recorder: Recorder) -> None:
    """Every object is freed under the handle and client that it was made with; dup and free are paired."""
    trace = recorder.probe("alloc=64K", "dup", "free=all")
    (root,) = [event for event in calls(trace, "NV_ESC_RM_ALLOC") if event.given["hRoot"] == 0]
    client = root.out["hObjectNew"]
    (dup,) = calls(trace, "NV_ESC_RM_DUP_OBJECT")
    (alloc,) = memory(trace)
    assert dup.given["hObjectSrc"] == alloc.given["hObjectNew"]
    freed = [event.given["hObjectOld"] for event in calls(trace, "NV_ESC_RM_FREE")]
    assert freed == [dup.given["hObject"], alloc.given["hObjectNew"], client]
    assert {event.given["hRoot"] for event in calls(trace, "NV_ESC_RM_FREE")} == {client}


def test_driver_chosen_handle(recorder: Recorder) -> None:
    """A handle that is left to the driver is among what came back."""
    (alloc,) = memory(recorder.probe("handles=auto", "alloc=64K"))
    assert alloc.given["hObjectNew"] == 0
    assert alloc.out["hObjectNew"] != 0


@pytest.mark.parametrize("via", ["rm64", "rm21", "heap"])
def test_ways_to_ask(recorder: Recorder, via: str) -> None:
    """Each way to ask for memory is recorded with its size."""
    trace = recorder.probe(f"via={via}", "alloc=1M")
    if via == "heap":
        asked = [
            event.given.get("data.AllocSize.size") for event in calls(trace, "NV_ESC_RM_VID_HEAP_CONTROL")
        ]
        assert asked == [MIB, None]
    else:
        (alloc,) = memory(trace)
        assert alloc.form == {"rm64": "NVOS64_PARAMETERS", "rm21": "NVOS21_PARAMETERS"}[via]
        assert parameters(alloc).given["size"] == MIB


def test_memory_sizes(recorder: Recorder) -> None:
    """Controls that tell memory have their indices and values, in both forms."""
    trace = recorder.probe("alloc=64K", "info")
    lists = [
        event.params for event in calls(trace, "NV_ESC_RM_CONTROL") if event.params and event.params.asked
    ]
    total, used = 15109 * 1024, 64
    assert {params.form[12:] for params in lists} == {"FB_GET_INFO_PARAMS", "FB_GET_INFO_V2_PARAMS"}
    assert {params.asked for params in lists} == {(9, 22)}
    assert {params.told for params in lists} == {(total, total - used)}


def test_unknown_structures(recorder: Recorder) -> None:
    """Of a structure that the tables do not have only the size is there; of unknown parameters too."""
    trace = recorder.probe("info")
    (cards,) = calls(trace, "NV_ESC_CARD_INFO")
    assert (cards.size, cards.form, cards.given) == (72 * 32, "", {})
    names = [event for event in calls(trace, "NV_ESC_RM_CONTROL") if event.given["cmd"] == 0x20800110]
    assert [(event.params, event.given["paramsSize"], event.status) for event in names] == [(None, 132, 0)]


@pytest.mark.parametrize("version", ["515.43.04", "535.104.05", "570.86.15", "595.45.04"])
def test_versions(start: Start, recorder: Recorder, version: str) -> None:
    """Structures are read by the tables of the driver that answers."""
    sim = start("T4", version)
    trace = Recorder(sim.mount, recorder.file).probe("alloc=3M:2m", "info")
    assert trace.header.layouts == version
    (alloc,) = memory(trace)
    assert parameters(alloc).out["size"] == 4 * MIB


def test_32_bit(recorder: Recorder) -> None:
    """A 32-bit program's calls are read alike, and marked."""
    trace = recorder.probe("alloc=64K", "xfer", "alloc=3M:2m", bits=32)
    small, huge = memory(trace)
    assert {event.rest["abi"] for event in trace.events if event.is_driver_call} == {"i386"}
    assert ("xfer" in small.rest, "xfer" in huge.rest) == (False, True)
    assert parameters(small).given["size"] == 65536
    assert parameters(huge).out["size"] == 4 * MIB


def test_times(recorder: Recorder) -> None:
    """Times never go back, and a call takes some."""
    events = recorder.probe("alloc=64K").events
    assert all(one.t <= other.t for one, other in itertools.pairwise(events))
    assert all(event.rest["took"] > 0 for event in events if event.is_driver_call)


def test_recorder_is_static(recorder: Recorder) -> None:
    """The recorder runs in an empty image: no interpreter, no libraries."""
    assert b"/ld-linux" not in RECORDER.read_bytes()
