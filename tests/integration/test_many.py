# SPDX-License-Identifier: Apache-2.0
"""Many containers at once, and many one after another."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.integration.conftest import Start
from tests.integration.engine import MIB, Engine
from tests.integration.runtimes import Runc
from tests.integration.test_slice import SLICE

FULL = 25
ROUNDS = 4


@pytest.mark.usefixtures("either")
def test_twenty_five_at_once(start: Start, runc: Runc) -> None:
    """25 containers on one card start at once and stop at once, four times over, and nothing is lost."""
    engine = start("T4", max_inst=FULL)
    env = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_DEV": str(FULL)}
    limit = 15109 // FULL * MIB
    names = [f"one{number}" for number in range(FULL)]
    spec = runc.spec(["/cgpu-probe", "alloc=64M", "hold=1000"], env)

    def begin(bundle: Path) -> None:
        command = [*runc.base, "run", "--detach", "--bundle", str(bundle), bundle.name.partition("-")[0]]
        quiet = subprocess.DEVNULL  # a pipe would stay open in the container
        subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=60, check=True)

    def end(name: str) -> None:
        runc.end(name)

    with ThreadPoolExecutor(FULL) as pool:
        for turn in range(ROUNDS):
            list(pool.map(begin, [runc.bundle(spec, f"{name}-{turn}") for name in names]))
            eventually(lambda: held(engine) == dict.fromkeys(names, (limit, 64 * MIB)), "all hold memory")
            list(pool.map(end, names))
            engine.await_empty()


def held(engine: Engine) -> dict[str, tuple[int, int]]:
    return {
        name: (int(engine.read(f"0/{name}/memsize")), engine.used("0", name)) for name in engine.instances()
    }
