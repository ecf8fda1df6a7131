# SPDX-License-Identifier: Apache-2.0
"""Images that hold the probe and nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.integration.commands import must

ROOT = Path(__file__).resolve().parents[2]
PROBE = ROOT / "kmod" / "build" / "cgpu-probe"
PROBE32 = ROOT / "kmod" / "build" / "cgpu-probe32"
IMAGE = "cgpu-test:latest"


def make_rootfs(path: Path) -> Path:
    """A root file system with the probe and nothing else."""
    for name in ("dev", "proc", "sys", "tmp", "etc"):
        (path / name).mkdir(parents=True, exist_ok=True)
    shutil.copy2(PROBE, path / "cgpu-probe")
    if PROBE32.exists():
        shutil.copy2(PROBE32, path / "cgpu-probe32")
    return path


def image_tar(directory: Path) -> Path:
    rootfs = make_rootfs(directory / "rootfs")
    tar = directory / "image.tar"
    must(["tar", "-C", rootfs, "-cf", tar, "."])
    return tar


def oci_archive(layer: Path, directory: Path, command: Sequence[str] = ()) -> Path:
    """Wrap one layer into the archive format of `docker save`, which containerd imports."""
    data = layer.read_bytes()
    diff = "sha256:" + hashlib.sha256(data).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": list(command)},
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        }
    ).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    staging = directory / "archive"
    staging.mkdir()
    (staging / "layer.tar").write_bytes(data)
    (staging / name).write_bytes(config)
    manifest = [{"Config": name, "RepoTags": [f"docker.io/library/{IMAGE}"], "Layers": ["layer.tar"]}]
    (staging / "manifest.json").write_text(json.dumps(manifest))
    target = directory / "archive.tar"
    must(["tar", "-C", staging, "-cf", target, "manifest.json", name, "layer.tar"])
    return target
