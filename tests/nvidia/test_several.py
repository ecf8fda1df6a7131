# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi on several cards, and in a slice without a container."""

from __future__ import annotations

import pytest

from tests.integration.commands import must
from tests.integration.engine import CGPU
from tests.nvidia.containers import SLICE
from tests.nvidia.machines import LIMIT, VERSIONS, machine, packages

pytestmark = pytest.mark.root
needs = packages


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("gpus", ["1", "0,2"])
def test_granted_cards(version: str, gpus: str) -> None:
    """A slice lists the cards that it was granted, with its limit on each."""
    with machine(version, "T4:3") as box:
        outcome = box.sliced.shell(
            "nvidia-smi --query-gpu=uuid,memory.total --format=csv,noheader,nounits",
            {**SLICE, "NVIDIA_VISIBLE_DEVICES": gpus},
        )
        expected = [f"{box.engine.read(f'{gpu}/uuid').strip()}, {LIMIT}" for gpu in gpus.split(",")]
        assert outcome.stdout.splitlines() == expected


def test_cgpu_run() -> None:
    """A command of `cgpu run`, which is in no container, has the slice too."""
    query = "nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits"
    with machine(VERSIONS[0]) as box:
        variables = [f"{name}={value}" for name, value in box.cards.environment().items()]
        outcome = must([CGPU, "run", "--mem", "1G", "--", "/usr/bin/env", *variables, "/bin/sh", "-c", query])
        assert outcome.stdout == "1024\n"
