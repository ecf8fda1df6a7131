# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi in a slice: it differs from one without only as docs/evidence.md says, also of a full slice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.nvidia.containers import Node
from tests.nvidia.machines import (
    BY_PROCESS,
    LIMIT,
    OTHERS,
    alongside,
    beside,
    box,
    details,
    packages,
    rows,
    run,
)

__all__ = ["box"]

pytestmark = pytest.mark.root
needs = packages

# Every field that nvidia-smi knows, but the time.
NAMES = r"sed -n 's/^\"\([a-z][a-z._0-9]*\)\".*/\1/p' | grep -v timestamp | paste -sd,"
FIELDS = f"$(nvidia-smi --help-query-gpu | {NAMES})"
ALIKE = ("-L", "topo -m", "topo -p2p r", "dmon -c 1", "pmon -c 1", "nvlink -s", "mig -lgip", "-B", "vgpu")


def both(box: Node, script: str) -> tuple[str, str]:
    """Return what a script prints without a slice and in one, each beside a process that holds memory."""
    # The card has back what containers before had a moment after they have ended.
    eventually(lambda: box.engine.card_used() == OTHERS * MIB, "only the other container has memory")
    whole = run(box.plain, beside(script))
    return whole, run(box.sliced, beside(script))


def told(repository: Path, heading: str) -> dict[str, tuple[str, str]]:
    """Return the table below a heading of the document: each thing, without a slice and in one."""
    text = (repository / "docs" / "evidence.md").read_text()
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \|", section, re.MULTILINE)
    assert table, heading
    return {name: (whole, sliced) for name, whole, sliced in table}


def test_details(box: Node, repository: Path) -> None:
    """`nvidia-smi -q` differs in the figures of memory, and in nothing else."""
    whole, sliced = (details(text) for text in both(box, "nvidia-smi -q"))
    # The process may have another number.
    for found in (whole, sliced):
        found.pop("Processes/Process ID", None)
    assert whole.keys() == sliced.keys()
    differ = {name: (whole[name], sliced[name]) for name in whole if whole[name] != sliced[name]}
    assert differ == told(repository, "nvidia-smi -q")


def test_queries(box: Node, repository: Path) -> None:
    """The fields of memory differ, and no others that can be queried."""
    (whole,), (sliced,) = (rows(text) for text in both(box, f"nvidia-smi --query-gpu={FIELDS} --format=csv"))
    assert len(whole) > len(ALIKE)
    differ = {name: (whole[name], sliced[name]) for name in whole if whole[name] != sliced[name]}
    assert differ == told(repository, "nvidia-smi --query-gpu")


@pytest.mark.parametrize("words", ALIKE)
def test_alike(box: Node, words: str) -> None:
    """Everything but memory is the same: the UUID, the bus, affinity, what the card has not."""
    # With its exit status; the process may have another number.
    whole, sliced = (
        re.sub(r"  \d+  +C ", " N C ", text) for text in both(box, f"nvidia-smi {words}; echo $?")
    )
    assert whole == sliced


@pytest.mark.parametrize("words", ["-mig 1", "-mig 0"])
def test_refused(box: Node, words: str) -> None:
    """How a card is divided by MIG is refused to a slice, also where the card tells others."""
    outcome = box.sliced.shell(
        f"nvidia-smi {words}", {"NVIDIA_VISIBLE_DEVICES": "0", "ALIYUN_COM_GPU_MEM_CONTAINER": "6"}
    )
    assert "Insufficient Permissions" in outcome.text


@pytest.mark.enforcement
def test_full(box: Node) -> None:
    """A process can have all of the slice, and then nothing is free."""
    fill = "/cgpu-probe fill=1M fill=64K:64k"
    query = "nvidia-smi --query-gpu=memory.total,memory.used,memory.free --format=csv,nounits"
    (row,) = rows(run(box.sliced, alongside(fill, query)))
    assert list(row.values()) == [str(LIMIT), str(LIMIT), "0"]


def test_processes(box: Node) -> None:
    """The list of processes has the container's own, by its numbers there, and not another one's."""
    script = beside("echo $!; nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader")
    number, *listed = run(box.sliced, script).splitlines()
    assert listed == [f"{number}, /cgpu-probe, {BY_PROCESS} MiB"]
