# SPDX-License-Identifier: Apache-2.0
"""Several GPUs in one container: which limit each has, however they are named, and whole ones beside."""

from __future__ import annotations

import pytest

from tests.integration.commands import Outcome
from tests.integration.conftest import Start
from tests.integration.engine import MIB, Engine
from tests.integration.probe import NO_MEMORY, Step, step, steps
from tests.integration.runtimes import Docker, Runc

T4 = 15109
MEM = "ALIYUN_COM_GPU_MEM_CONTAINER"
DEVICES = "ALIYUN_COM_GPU_VISIBLE_DEVICES"
VENDOR = "NVIDIA_VISIBLE_DEVICES"
DEV = {"ALIYUN_COM_GPU_MEM_DEV": "15"}
# UUID of each card, in the order of the tree: "{0}" in a value stands for the first.
ORDERS: list[tuple[dict[str, str], dict[int, int]]] = [
    ({MEM: "3,6", DEVICES: "1,0"}, {0: 6, 1: 3}),
    ({MEM: "3,6", DEVICES: "{2},1,0"}, {0: 6, 1: 6, 2: 3}),
    ({MEM: "3,6", VENDOR: "2,{0}"}, {2: 3, 0: 6}),
    ({MEM: "6,3", VENDOR: "all"}, {0: 6, 1: 3, 2: 3}),
]


@pytest.fixture
def three(start: Start) -> Engine:
    return start("T4:3")


def named(engine: Engine, env: dict[str, str]) -> dict[str, str]:
    uuids = [engine.read(f"{gpu}/uuid").strip() for gpu in engine.gpus()]
    return {**DEV, **{key: value.format(*uuids) for key, value in env.items()}}


def limit(units: int) -> int:
    return T4 * units // 15 * MIB


def cards(outcome: Outcome) -> list[Step]:
    """Return what was said of each card that could be opened."""
    return [one for one in steps(outcome) if one.name == "info"]


@pytest.mark.enforcement
def test_each_card_has_its_own_limit(three: Engine, runc: Runc) -> None:
    """Amounts go to the cards in the order of their names; a card is known by minor, UUID and bus order."""
    for env, units in ORDERS:
        words = [word for gpu in units for word in (f"gpu={gpu}", "fill=1G:2m")]
        outcome = runc.run(["/cgpu-probe", "info=all", *words], named(three, env))
        found = {one.number("gpu"): one for one in cards(outcome)}
        assert {gpu: one.number("total") for gpu, one in found.items()} == {
            gpu: limit(amount) for gpu, amount in units.items()
        }
        # The index that CUDA_VISIBLE_DEVICES counts by, the UUID and the card belong together.
        assert {gpu: one.fields["uuid"] for gpu, one in found.items()} == {
            gpu: three.read(f"{gpu}/uuid").strip() for gpu in units
        }
        filled = [one for one in steps(outcome) if one.name == "fill"]
        assert [one.number("count") for one in filled] == [limit(amount) >> 30 for amount in units.values()]
        assert {one.number("status") for one in filled} == {NO_MEMORY}


@pytest.mark.enforcement
def test_whole_cards_beside_a_slice(three: Engine, docker: Docker) -> None:
    """GPUs that only the vendor's variable names are whole, in size and memory; the slice stays one."""
    env = named(three, {MEM: "6", DEVICES: "2", VENDOR: "0,1,2"})
    words = ["info=all", "gpu=0", "fill=1G:2m", "gpu=2", "fill=1G:2m"]
    outcome = docker.run(["/cgpu-probe", *words], env)
    assert [one.number("total") for one in cards(outcome)] == [T4 * MIB, T4 * MIB, limit(6)]
    assert step(outcome, "fill").number("count") == T4 >> 10
    assert step(outcome, "fill", 1).number("count") == limit(6) >> 30
    three.await_empty()
    assert [three.read(f"{gpu}/natives") for gpu in three.gpus()] == ["0\n"] * 3
    # All, as images of CUDA have it, adds nothing whole.
    outcome = docker.run(["/cgpu-probe", "info=all"], {**env, VENDOR: "all"})
    assert [(one.number("gpu"), one.number("total")) for one in cards(outcome)] == [(2, limit(6))]


MODE = "GPU 1 is in MIG mode and cannot be sliced; name another, or switch MIG off (nvidia-smi -mig 0)"


def test_mig(start: Start, runc: Runc) -> None:
    """A slice of a card in MIG mode is refused; whole beside a slice, its instance can be used."""
    engine = start("H200=4096:2/mig=1")
    refused = runc.run(["/cgpu-probe", "info"], {MEM: "1", DEVICES: "all"})
    assert refused.returncode != 0
    assert MODE in refused.stderr
    env = {MEM: "1", DEVICES: "0", VENDOR: "0,1"}
    outcome = runc.run(["/cgpu-probe", "gpu=1", "instance", "alloc=2G", "info", "gpu=0", "info"], env)
    assert outcome.returncode == 0, outcome.text
    assert [one.number("total") for one in cards(outcome)] == [4096 * MIB, 1024 * MIB]
    assert engine.instances("1") == []
