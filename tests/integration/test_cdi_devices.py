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
    """Return the MiB of each card that could be opened, by its UUID."""
    assert outcome.returncode == 0, outcome.text
    found = [one for one in steps(outcome) if one.name == "info"]
    return {one.fields["uuid"]: one.number("total") // MIB for one in found}


@pytest.mark.parametrize(
    ("devices", "mib"),
    [
        (("0",), {0: 2048}),
        (("{1}",), {1: 2048}),
        (("1", "0"), {0: 2048, 1: 3072}),
        (("all",), {0: 2048, 1: 3072}),
    ],
)
def test_devices_name_gpus(
    start: Start, podman: Podman, devices: tuple[str, ...], mib: dict[int, int]
) -> None:
    """By index, UUID or all, in the order of the indexes; how much is said by the variable."""
    engine = start("T4:2")
    uuids = [engine.read(f"{gpu}/uuid").strip() for gpu in engine.gpus()]
    env = {"OPENCGPU_MEM": ",".join(MEM["OPENCGPU_MEM"].split(",")[: len(mib)])}
    outcome = run(podman, env, *(device.format(*uuids) for device in devices))
    assert cards(outcome) == {uuids[gpu]: size for gpu, size in mib.items()}


@pytest.mark.parametrize(
    ("env", "device", "line"),
    [
        ({}, "0", "device opencgpu.io/gpu=0: nothing says how much memory the slice has"),
        ({**MEM, "OPENCGPU_GPUS": "0"}, "0", "OPENCGPU_GPUS=0: device opencgpu.io/gpu is given too"),
        (MEM, "7", "opencgpu.io/gpu=7"),
    ],
)
def test_refused(start: Start, podman: Podman, env: dict[str, str], device: str, line: str) -> None:
    """A name without an amount, a GPU named in two ways, and one that is not there start nothing."""
    engine = start("T4:2")
    outcome = run(podman, env, device)
    assert outcome.returncode != 0
    assert line in outcome.text
    assert engine.instances("0") == []


def test_the_description_goes_with_the_engine(start: Start) -> None:
    """Container engines know the devices as long as cgpud runs."""
    path = Path(paths.CDI_DEVICES)
    engine = start("T4:2")
    names = [device["name"] for device in json.loads(path.read_text())["devices"]]
    assert names == ["0", engine.read("0/uuid").strip(), "1", engine.read("1/uuid").strip(), "all"]
    engine.stop()
    assert not path.exists()
