# SPDX-License-Identifier: Apache-2.0
"""--device opencgpu.io/gpu=N of a real container engine names a GPU, and gives nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgpu import paths
from tests.integration.commands import Outcome
from tests.integration.conftest import Start
from tests.integration.engine import MIB
from tests.integration.probe import steps
from tests.integration.runtimes import Podman

MEM = {"OPENCGPU_MEM": "2G,3G"}


def run(podman: Podman, env: dict[str, str], *devices: str) -> Outcome:
    """Run a container with these devices that looks at all cards."""
    words = [word for device in devices for word in ("--device", f"opencgpu.io/gpu={device}")]
    return podman.run(["/cgpu-probe", "info=all"], env, *words)


def cards(outcome: Outcome) -> dict[str, int]:
    assert outcome.returncode == 0, outcome.text
    found = [one for one in steps(outcome) if one.name == "info"]
    return {one.fields["uuid"]: one.number("total") // MIB for one in found}


def test_devices_name_gpus(start: Start, podman: Podman) -> None:
    """By index, UUID or all, in the order of the indexes; how much is said by the variable."""
    engine = start("T4:2")
    uuids = [engine.read(f"{gpu}/uuid").strip() for gpu in engine.gpus()]
    assert cards(run(podman, {"OPENCGPU_MEM": "2G"}, uuids[1])) == {uuids[1]: 2048}
    both = {uuids[0]: 2048, uuids[1]: 3072}
    for devices in (("1", "0"), ("all",)):
        assert cards(run(podman, MEM, *devices)) == both
    refused = run(podman, {**MEM, "OPENCGPU_GPUS": "0"}, "0")
    assert refused.returncode != 0
    assert "OPENCGPU_GPUS=0: device opencgpu.io/gpu is given too" in refused.text
    assert engine.instances("0") == []


@pytest.mark.usefixtures("own_engine")
def test_the_description_goes_with_the_engine(start: Start) -> None:
    """Container engines know the devices as long as cgpud runs."""
    path = Path(paths.CDI_DEVICES)
    engine = start("T4:2")
    names = [device["name"] for device in json.loads(path.read_text())["devices"]]
    assert names == ["0", engine.read("0/uuid").strip(), "1", engine.read("1/uuid").strip(), "all"]
    engine.stop()
    assert not path.exists()
