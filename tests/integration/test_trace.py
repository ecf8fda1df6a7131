# SPDX-License-Identifier: Apache-2.0
"""Driver calls recorded on a node and inside a slice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cgpu.trace.format import Trace, load, parse
from cgpu.trace.replay import replay
from tests.integration.commands import must
from tests.integration.engine import CGPU, MIB, RUN, Engine
from tests.integration.images import PROBE
from tests.integration.runtimes import Runc

RECORDER = PROBE.with_name("cgpu-recorder")
SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}
LIMIT = 1007 * MIB
NO_MEMORY = 0x51


def statuses(trace: Trace) -> list[tuple[int | None, int | None]]:
    """Return asked size and status of each allocation of memory."""
    return [
        (event.params.given["size"], event.status)
        for event in trace.events
        if event.params and event.params.form == "NV_MEMORY_ALLOCATION_PARAMS"
    ]


def test_on_the_node(engine: Engine, tmp_path: Path) -> None:
    """A program beside the engine is recorded; replayed, it comes to the same and leaves nothing."""
    dev, file = RUN / "sim", tmp_path / "trace"
    words = ["alloc=64K", "dup", "alloc=3M:2m", "expect=0x51", "alloc=1T", "free=all"]
    must([CGPU, "trace", "record", "-o", file, "--dev", dev, "--", PROBE, "--dev", dev, *words])
    trace = load(file)
    assert statuses(trace) == [(65536, 0), (3 * MIB, 0), (1 << 40, NO_MEMORY)]
    outcome = replay(trace, "T4", 0)
    assert outcome.agrees
    assert [(balance.taken, balance.charged) for balance in outcome.closed] == [(0, 0)]


@pytest.mark.enforcement
def test_inside_a_slice(engine: Engine, runc: Runc) -> None:
    """In a container with a slice the engine's answers are recorded, although its filter is stronger."""
    shutil.copy2(RECORDER, runc.rootfs / "cgpu-recorder")
    words = ["info", "alloc=512M", "expect=0x51", "alloc=768M", "fork=2:1M", "threads=2:1M", "free=all"]
    record = ["/cgpu-recorder", "-o", "/dev/stderr", "--", "/cgpu-probe", *words]
    outcome = runc.run(record, SLICE)
    assert outcome.returncode == 0, outcome.text
    trace = parse([line.encode() for line in outcome.stderr.splitlines()], "stderr")
    assert trace.header.driver == "580.142"
    assert statuses(trace)[:2] == [(512 * MIB, 0), (768 * MIB, NO_MEMORY)]
    told = {event.params.told[0] for event in trace.events if event.params and event.params.told}
    assert told == {LIMIT >> 10}
    again = replay(trace, "T4", LIMIT)
    assert again.differences == ()
    assert again.agrees
