# SPDX-License-Identifier: Apache-2.0
"""The CDI description of the cards, in a file that is replaced whole."""

from __future__ import annotations

from pathlib import Path

from cgpu.kmod.daemon import cdi
from cgpu.kmod.daemon.engine import DeviceNode, Gpu
from cgpu.replace import replace_text

GPUS = (Gpu(0, 3, 1 << 34, "GPU-1", "Tesla T4"), Gpu(1, 5, 1 << 34, "", "Tesla T4"))


def test_description_of_files() -> None:
    """Cards that are files are mounted where programs look for them, under index and UUID."""
    nodes = [DeviceNode(f"/run/cgpu/sim/{name}", False, 0, 0) for name in ("nvidiactl", "nvidia3", "nvidia5")]
    document = cdi.specification(GPUS, nodes)
    assert [device["name"] for device in document["devices"]] == ["0", "GPU-1", "1"]
    mount = document["devices"][2]["containerEdits"]["mounts"][0]
    assert mount["hostPath"] == "/run/cgpu/sim/nvidia5"
    assert mount["containerPath"] == "/dev/nvidia5"
    assert document["containerEdits"]["mounts"][0]["containerPath"] == "/dev/nvidiactl"
    assert document["annotations"] == {"opencgpu.io/vendor-toolkit": "false"}


def test_description_of_devices() -> None:
    """Cards that are devices become device nodes; common edits are there once; modeset is left out."""
    names = ("nvidiactl", "nvidia3", "nvidia5", "nvidia-uvm", "nvidia-modeset")
    nodes = [DeviceNode(f"/dev/{name}", True, 195, number) for number, name in enumerate(names)]
    document = cdi.specification(GPUS, nodes)
    common = [node["path"] for node in document["containerEdits"]["deviceNodes"]]
    assert common == ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    assert document["devices"][0]["containerEdits"]["deviceNodes"][0]["minor"] == 1
    assert document["annotations"] == {"opencgpu.io/vendor-toolkit": "true"}


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    """A file is put in place for root only, and leaves nothing beside it."""
    replace_text(tmp_path / "cdi.json", "{}")
    replace_text(tmp_path / "cdi.json", "[]")
    assert (tmp_path / "cdi.json").read_text() == "[]"
    assert (tmp_path / "cdi.json").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 1
