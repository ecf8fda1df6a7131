# SPDX-License-Identifier: Apache-2.0
"""Traces replayed through the engine's core and simulated cards.

tests/nvidia/record.py made those of NVIDIA's own clients (real library, simulated card), with nvidia-smi,
libcuda and nvidia-ml-py of Debian's and PyPI's packages.
"""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.trace.format import Trace, load
from cgpu.trace.kinds import Part
from cgpu.trace.replay import Outcome, replay
from cgpu.trace.report import lines
from tests.integration.commands import call, must
from tests.sim.abi import facts
from tests.trace.support import CGPU, MIB, Recorder, Words, calls, memory

pytestmark = pytest.mark.root
NO_MEMORY = 0x51
PID_INFO = 0x2080018E  # its parameters are larger than any that a trace has


def played(trace: Trace, card: str = "T4", size: int = 0) -> Outcome:
    return replay(trace, card, size)


@pytest.mark.parametrize(
    "words",
    [
        ["info", "alloc=64K", "alloc=3M:2m", "host=1M", "dup", "info", "free=all"],
        ["via=rm21", "alloc=1M", "dup", "free=first", "free"],
        ["via=heap", "alloc=1M", "alloc=64K:64k", "info", "free=all"],
        ["handles=auto", "alloc=1M", "dup", "via=heap", "alloc=64K"],
        ["xfer", "alloc=1M", "expect=0x51", "alloc=1T", "expect=0x22", "class=0x7777"],
        ["fork=3:1M", "threads=3:1M", "fork=2:1M:nest"],
        ["gpu=1", "alloc=1M", "gpu=0", "alloc=2M", "reopen", "alloc=1M"],
        ["unshare=64K"],
        ["alloc=64K", "class=0x90f1", "context=2", "free", "class=0x9067", "pids"],
    ],
)
@pytest.mark.parametrize("bits", [64, 32])
def test_equal(recorder: Recorder, words: list[str], bits: int) -> None:
    """What the simulated card answered is answered again, and all is given back."""
    outcome = played(recorder.probe(*words, bits=bits))
    assert outcome.differences == ()
    assert outcome.agrees
    assert all(balance.agrees and balance.taken > 0 for balance in outcome.peak[:1])
    assert {(balance.taken, balance.charged) for balance in outcome.closed} == {(0, 0)}


def test_books_at_the_end(recorder: Recorder) -> None:
    """A trace cut while memory was held ends with that much charged and taken, and then with nothing."""
    trace = recorder.probe("alloc=3M:2m", "alloc=64K", "dup", "exit-dirty")
    cut = [event for event in trace.events if event.call != "close"]
    outcome = played(dataclasses.replace(trace, events=tuple(cut)))
    (balance,) = outcome.end
    assert (balance.taken, balance.charged) == (4 * MIB + 65536, 4 * MIB + 65536)
    assert outcome.agrees


def test_smaller_slice(recorder: Recorder) -> None:
    """What goes beyond a slice is refused as out of memory, and listed as a difference."""
    trace = recorder.probe("alloc=1M", "alloc=1M", "alloc=1M", "free=all")
    outcome = played(trace, size=2 * MIB)
    refused = [answer for answer in outcome.answers if not answer.through]
    assert [answer.event for answer in refused] == [memory(trace)[2]]
    assert [answer.status for answer in outcome.differences] == [NO_MEMORY]
    assert not outcome.agrees
    assert all(balance.agrees for balance in (*outcome.end, *outcome.closed))


def test_other_card(recorder: Recorder) -> None:
    """A trace of a T4 runs on a larger card; on a smaller one what does not fit differs."""
    trace = recorder.probe("alloc=1G", "expect=0x51", "alloc=16G")
    assert played(trace).agrees
    assert [answer.status for answer in played(trace, "A10").differences] == [0]
    assert [answer.status for answer in played(trace, "T4=512").differences] == [NO_MEMORY]


def test_recorded_refusal_differs(recorder: Recorder) -> None:
    """A status that the replay does not give is told with both."""
    trace = recorder.probe("alloc=64K")
    events = [
        dataclasses.replace(event, status=NO_MEMORY) if event is memory(trace)[0] else event
        for event in trace.events
    ]
    outcome = played(dataclasses.replace(trace, events=tuple(events)))
    assert any("let through: NV_OK (recorded NV_ERR_NO_MEMORY)" in line for line in lines(outcome))


def test_not_replayed_is_said(recorder: Recorder) -> None:
    """Calls that the simulated cards cannot do again are counted by name, and still asked of the core."""
    outcome = played(recorder.probe("info"))
    assert outcome.not_replayed["NV_ESC_CARD_INFO"] == 1
    assert outcome.not_replayed["NV_ESC_RM_CONTROL NV2080_CTRL_CMD_GPU_GET_NAME_STRING"] == 1
    asked = [answer for answer in outcome.answers if answer.played is Part.ASKED]
    assert asked
    assert all(answer.through for answer in asked)


def test_unlisted_call_is_refused(recorder: Recorder) -> None:
    """A call that the slice does not let through is refused, whatever the driver said."""
    trace = recorder.probe("alloc=64K")
    (alloc,) = memory(trace)
    strange = dataclasses.replace(
        alloc, call="ioctl", nr=250, form="", given={}, out={}, params=None, status=None
    )
    outcome = played(dataclasses.replace(trace, events=(*trace.events[: trace.events.index(alloc)], strange)))
    (refused,) = [answer for answer in outcome.answers if not answer.through]
    assert (refused.result, refused.event.nr, refused.differs) == (-22, 250, True)


def test_unknown_structures(recorder: Recorder) -> None:
    """A trace without structures is refused with the option that helps."""
    trace = recorder.probe("alloc=64K")
    for layouts in (None, "1.2.3"):
        header = dataclasses.replace(trace.header, layouts=layouts)
        with pytest.raises(CgpuError, match="record with: cgpu trace record --driver VERSION"):
            played(dataclasses.replace(trace, header=header))


def test_command(recorder: Recorder) -> None:
    """The command says what each call came to; 0 when all agrees, 1 when not, 125 for our failures."""
    recorder.probe("alloc=1M", "alloc=1M")
    command: Words = [CGPU, "trace", "replay", recorder.file]
    good = must(command)
    assert "NV_ESC_RM_ALLOC NV01_MEMORY_LOCAL_USER: let through: NV_OK\n" in good.stdout
    assert "with all files closed: 0 bytes taken by its own count, 0 charged: agree" in good.stdout
    small = call([*command, "--mem", "1M"])
    assert small.returncode == 1
    assert "refused by the slice: NV_ERR_NO_MEMORY (recorded NV_OK)" in small.stdout
    for words in (["--mem", "much"], ["--model", "T5"], ["--mem", "9T"], ["--nonsense"]):
        bad = call([*command, *words])
        assert (bad.returncode, bad.stderr.count("\n")) == (125, 1), bad.stderr


def test_whatever_a_trace_says(recorder: Recorder) -> None:
    """Calls in an order and with numbers that no driver saw end in answers, not in a crash."""
    trace = recorder.probe(
        "info", "alloc=64K", "dup", "via=heap", "alloc=64K", "xfer", "host=64K", "free=all"
    )
    assert load(recorder.file) == trace
    opened = [event for event in trace.events if event.call == "open"]
    rest = [event for event in trace.events if event.is_driver_call]
    strange = [
        dataclasses.replace(event, given=dict.fromkeys(event.given, value), size=event.size, out={})
        for event in rest
        for value in (0, 1, (1 << 32) - 1, (1 << 64) - 1, None)
    ]
    for event in calls(trace, "NV_ESC_RM_CONTROL"):
        if event.params:
            params = dataclasses.replace(event.params, given=dict.fromkeys(event.params.given, 1 << 31))
            strange.append(dataclasses.replace(event, params=params))
            given = event.given | {"cmd": PID_INFO, "paramsSize": 14408}
            strange.append(dataclasses.replace(event, given=given))
    outcome = played(dataclasses.replace(trace, events=(*opened, *rest, *reversed(rest), *strange)))
    assert all(balance.taken == balance.charged == 0 for balance in outcome.closed)


FILES = sorted((Path(__file__).parent / "real_library").glob("*.jsonl.gz"))
ORIGIN = "real library, simulated card"
RELEASES = ("535.261.03", "550.163.01")
PROGRAMS = ("cuda-copies", "cuda-describe", "cuda-managed", "nvidia-ml-py", "nvidia-smi", "nvidia-smi-q")
# The core answers this one by itself: how long a container's channels run is its affair.
OWN = facts()["controls"]["NVA06C_CTRL_CMD_SET_TIMESLICE"]["cmd"]


def unpacked(file: Path, folder: Path) -> Trace:
    plain = folder / file.stem
    plain.write_bytes(gzip.decompress(file.read_bytes()))
    return load(plain)


def test_every_program_was_recorded() -> None:
    """There is one of each program for each release."""
    expected = sorted(f"{program}-{version}.jsonl.gz" for program in PROGRAMS for version in RELEASES)
    assert [file.name for file in FILES] == expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".jsonl.gz"))
@pytest.mark.parametrize("size", [0, 512 * MIB], ids=["whole card", "slice"])
def test_recorded_programs_pass(tools: Path, tmp_path: Path, file: Path, size: int) -> None:
    """The core lets all through but its own, in a slice too, and each replayed is answered as unpacked."""
    assert (tools / "libcgpu-replay.so").exists()
    trace = unpacked(file, tmp_path)
    assert trace.header.notes == {"origin": ORIGIN}
    assert f"-{trace.header.driver}.jsonl" in file.name
    assert calls(trace, "NV_ESC_CARD_INFO")
    outcome = replay(trace, "T4", size)
    kept = [answer.event for answer in outcome.answers if not answer.through]
    assert [event for event in kept if event.given.get("cmd") != OWN] == []
    assert outcome.differences == ()
    assert all(balance.taken == balance.charged == 0 for balance in outcome.closed)
