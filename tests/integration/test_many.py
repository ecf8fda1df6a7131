# SPDX-License-Identifier: Apache-2.0
"""Many containers at once, and many one after another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.integration.conftest import Start
from tests.integration.engine import MIB, Engine
from tests.integration.probe import step
from tests.integration.runtimes import Runc
from tests.integration.test_slice import SLICE

FULL = 25
ROUNDS = 20
CYCLES = 1000


def test_twenty_five_at_once(start: Start, runc: Runc) -> None:
    """25 containers on one card start at once and stop at once, 20 times over, and nothing is lost."""
    engine = start("T4", max_inst=FULL)
    env = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_DEV": str(FULL)}
    bundles = [
        runc.bundle(runc.spec(["/cgpu-probe", "alloc=64M", "info"], env), f"one{i}") for i in range(FULL)
    ]
    originals = [(bundle / "config.json").read_bytes() for bundle in bundles]
    limit = 15109 // FULL * MIB

    def life(turn: int, number: int) -> int:
        (bundles[number] / "config.json").write_bytes(originals[number])
        outcome = runc.run_bundle(bundles[number], f"turn{turn}-{number}")
        seen = step(outcome, "info")
        return seen.number("free") + seen.number("used")

    with ThreadPoolExecutor(FULL) as pool:
        for turn in range(ROUNDS):
            assert list(pool.map(lambda number, turn=turn: life(turn, number), range(FULL))) == [limit] * FULL
            engine.await_empty()


def test_thousand_registrations(engine: Engine) -> None:
    """1,000 registrations and removals leave cgpud's memory and descriptors where they were."""

    def cycle(number: int) -> None:
        engine.write("inst_ctl", f"create id=cycle{number} pid=1 gpu=0:{64 * MIB}")
        engine.write("inst_ctl", f"destroy id=cycle{number}")

    for number in range(100):
        cycle(number)
    before = figures(engine.pid())
    for number in range(CYCLES):
        cycle(number)
    after = figures(engine.pid())
    assert after["fds"] == before["fds"]
    assert after["threads"] == before["threads"]
    assert after["kib"] <= before["kib"] + 1024
    assert engine.instances() == []


def figures(pid: int) -> dict[str, int]:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return {
        "fds": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "threads": int(status["Threads"]),
        "kib": int(status["VmRSS"].split()[0]),
    }
