# SPDX-License-Identifier: Apache-2.0
"""The agent's figures of a node's GPUs: memory promised, memory used, by whom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cgpu.client.tree import EngineDownError, Tree
from cgpu.kubernetes.node.allocation import AllocatedShare
from cgpu.kubernetes.node.records import ClaimName, Record, Records
from cgpu.kubernetes.node.usage import Usage, UsedGpu, document, usage
from cgpu.sizes import MIB
from cgpu.slice import Slice
from tests.exporter.trees import gpu_line, slice_line
from tests.grants import OTHERS

CLAIM = ClaimName("team", "six", "11111111-0000-4000-8000-000000000000")
SHARE, OTHER, UNKNOWN = (f"{digit}0000000-0000-4000-8000-000000000000" for digit in "abc")
CONTAINER = "0123456789ab" + "0" * 52
FACTS = {
    "uuid": "GPU-A",
    "name": "Tesla T4",
    "memtotal": 15109 * MIB,
    "max_inst": 20,
    "policy": 1,
    "mig": 0,
    "minor": 0,
}


def put(folder: Path, entries: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in entries.items():
        (folder / name).write_text(f"{value}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    put(tmp_path / "tree", {"version": "1", "engine": "cgpud 1"})
    put(tmp_path / "tree" / "0", {**FACTS, "reserved": "", "stat": gpu_line("GPU-A")})
    return Tree(str(tmp_path / "tree"))


@pytest.fixture
def records(tmp_path: Path) -> Records:
    found = Records(tmp_path / "claims")
    shares = tuple(
        AllocatedShare(share, "gpu", "gpu-a", "GPU-A", Slice(MIB).values()) for share in (SHARE, OTHER)
    )
    found.write(Record(CLAIM, shares, {}, "card"))
    return found


def starts(tree: Tree, promised: int, *slices: tuple[str, int, int]) -> None:
    """Have containers by their names, limits, and what they use. promised: of the whole GPU."""
    lines = [slice_line(name, memsize=limit, used=used) for name, limit, used in slices]
    stat = "\n".join((gpu_line("GPU-A", promised=promised), *lines))
    (Path(tree.path) / "0" / "stat").write_text(stat)


def reserve(tree: Tree, *lines: str) -> None:
    (Path(tree.path) / "0" / "reserved").write_text("".join(f"{line}\n" for line in lines))


def test_shares_with_and_without_a_container(tree: Tree, records: Records) -> None:
    """A share that is used is its container's; one that is not counts as promised and unused."""
    starts(tree, 6507, (CONTAINER, 6000, 2000))
    reserve(tree, f"{SHARE} 6000 {OTHERS} {CONTAINER}", f"{OTHER} 500 {OTHERS} -", f"{UNKNOWN} 7 {OTHERS} -")
    (gpu,) = usage(tree, records)
    assert (gpu.uuid, gpu.total, gpu.promised, gpu.used) == ("GPU-A", 15109 * MIB, 6507, 2000)
    used, unused, unknown = gpu.slices
    assert (used.container, used.limit, used.used) == (CONTAINER[:12], 6000, 2000)
    assert used.shares[0].claim == CLAIM
    assert (unused.container, unused.limit, unused.used, unused.shares[0].share) == (None, 500, 0, OTHER)
    assert unknown.shares[0].claim is None


def test_a_container_of_docker_and_merged_shares(tree: Tree, records: Records) -> None:
    """A container beside Kubernetes has no share, one with two shares of a GPU is one slice."""
    starts(tree, 350, (CONTAINER, 300, 200), ("beside", 50, 0))
    reserve(tree, f"{SHARE} 100 {OTHERS} {CONTAINER}", f"{OTHER} 200 {OTHERS} {CONTAINER}")
    (gpu,) = usage(tree, records)
    assert (gpu.promised, gpu.used) == (350, 200)
    merged, beside = gpu.slices
    assert [one.share for one in merged.shares] == [SHARE, OTHER]
    assert (beside.container, beside.shares) == ("beside", ())


def test_the_document(tree: Tree, records: Records) -> None:
    """The keys that readers rely on."""
    reserve(tree, f"{SHARE} 6000 {OTHERS} -")
    said = json.loads(document("node-a", usage(tree, records)))
    assert (said["version"], said["node"]) == (1, "node-a")
    (gpu,) = said["gpus"]
    assert sorted(gpu) == ["index", "product", "promised", "slices", "total", "used", "uuid"]
    (part,) = gpu["slices"]
    assert sorted(part) == ["container", "limit", "shares", "used"]
    claim = {"namespace": "team", "name": "six", "uid": CLAIM.uid, "kind": "claim"}
    assert part["shares"] == [{"share": SHARE, "limit": 6000, "claim": claim}]


def test_an_engine_that_is_down(tree: Tree, records: Records) -> None:
    """A failed reading is reported, and read again at the next question."""
    asked: list[bool] = []

    def read() -> tuple[UsedGpu, ...]:
        asked.append(True)
        if len(asked) == 1:
            raise EngineDownError("the engine is not running")
        return usage(tree, records)

    seen = Usage(read)
    with pytest.raises(EngineDownError):
        seen.now()
    assert seen.now() == seen.now()
    assert len(asked) == 2
