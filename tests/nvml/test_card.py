# SPDX-License-Identifier: Apache-2.0
"""The driver's own limits on a real card, where there is one with such a driver."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.memory_backend.backend import Node, open_driver
from cgpu.kmod.daemon.memory_backend.nvml import Limits

pytestmark = [pytest.mark.gpu, pytest.mark.root]

CARDS = Path("/proc/driver/nvidia/gpus")
VERSION = Path("/sys/module/nvidia/version")
HARD = 1 << 30


def test_limit_is_set_and_taken_away() -> None:
    """A hard limit on a new cgroup can be read back, without a soft one, and is gone when taken away."""
    if not CARDS.is_dir():
        pytest.skip("needs an NVIDIA GPU")
    facts = [(card / "information").read_text() for card in CARDS.iterdir()]
    uuids = tuple(text.split("GPU UUID:")[1].split()[0] for text in facts)
    try:
        nvml = open_driver(Node(VERSION.read_text().strip(), uuids, simulated=False, library=None))
    except CgpuError as error:
        pytest.skip(f"needs a driver that limits cgroups: {error}")
    group = Path(f"/sys/fs/cgroup/opencgpu-test-{os.getpid()}")
    group.mkdir()
    try:
        for uuid in uuids:
            nvml.set_hard(uuid, str(group), HARD)
            assert nvml.limits(uuid, str(group)) == Limits(HARD, 0, 0)
            nvml.set_hard(uuid, str(group), None)
            assert nvml.limits(uuid, str(group)).hard is None
    finally:
        group.rmdir()
