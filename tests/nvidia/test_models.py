# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's clients on a card of each model that their releases know."""

from __future__ import annotations

import json

import pytest

from cgpu.kmod.daemon.simulate import models
from tests.nvidia import pypi
from tests.nvidia.clients import alone
from tests.nvidia.machines import VERSIONS, details
from tests.nvidia.programs import ML
from tests.nvidia.test_cuda import CUDA, PROGRAM, read
from tests.nvidia.test_cuda import needs as cuda_packages
from tests.sim.support import listed

pytestmark = pytest.mark.root

# The architecture by NVIDIA's library, the compute capability, the multiprocessors, and whether it has MIG.
KNOWN = {
    "T4": ("Turing", [7, 5], 40, False),
    "V100": ("Volta", [7, 0], 80, False),
    "A10": ("Ampere", [8, 6], 72, False),
    "A100": ("Ampere", [8, 0], 108, True),
    "A100-80GB": ("Ampere", [8, 0], 108, True),
    "L4": ("Ada Lovelace", [8, 9], 58, False),
    "L40S": ("Ada Lovelace", [8, 9], 142, False),
    "H100": ("Hopper", [9, 0], 132, True),
    "H200": ("Hopper", [9, 0], 132, True),
}
# Both releases are older than Blackwell: their library refuses such a card.
NEWER = {"B200"}


def needs() -> None:
    cuda_packages()
    pypi.clients()


def test_all_models() -> None:
    """No model is left out."""
    assert {*KNOWN, *NEWER} == set(models())


@pytest.mark.parametrize(
    ("model", "version"), [(model, VERSIONS[at % len(VERSIONS)]) for at, model in enumerate(KNOWN)]
)
def test_clients(model: str, version: str) -> None:
    """nvidia-smi, nvidia-ml-py and libcuda have a model's name, memory and kind; the releases take turns."""
    architecture, compute, processors, has_mig = KNOWN[model]
    mib, name = listed()[model]
    with alone(version, model, CUDA) as cards:
        card = read(cards.run("python3", PROGRAM, "describe").stdout)["describe"]
        smi = cards.run("nvidia-smi", "-q")
        binding = cards.run("/usr/bin/python3", "-c", ML, extra={"PYTHONPATH": str(pypi.clients())})
    found, answer = details(smi.stdout), json.loads(binding.stdout)
    assert (found["Product Name"], found["Product Architecture"]) == (name, architecture)
    assert found["FB Memory Usage/Total"] == f"{mib} MiB"
    assert found["MIG Mode/Current"] == ("Disabled" if has_mig else "N/A")
    assert (answer["name"], answer["compute"]) == (name, compute)
    assert answer["memory"][0] == mib << 20
    assert (card["name"], card["total"]) == (name, mib << 20)
    assert ([card["major"], card["minor"]], card["processors"]) == (compute, processors)
    assert {card[name] for name in ("managed", "concurrent", "virtual", "descriptors", "pools")} == {1}
