# SPDX-License-Identifier: Apache-2.0
"""Images that hold the probe and nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.integration.commands import must

ROOT = Path(__file__).resolve().parents[2]
PROBE = ROOT / "kmod" / "build" / "cgpu-probe"
PROBE32 = ROOT / "kmod" / "build" / "cgpu-probe32"
IMAGE = "cgpu-test:latest"


def make_rootfs(path: Path) -> Path:
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


def oci_archive(layer: Path, directory: Path, command: Sequence[str] = (), **config_members: object) -> Path:
    """Wrap one layer into the archive format of `docker save`, which docker and containerd load.

    config_members: of the image's configuration, such as Labels.
    """
    data = layer.read_bytes()
    diff = "sha256:" + hashlib.sha256(data).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": list(command), **config_members},
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


def oci_layout(layer: Path, directory: Path, annotations: Mapping[str, str]) -> Path:
    """Make an OCI image layout of one layer whose manifest has these annotations; its tag is `latest`."""
    root = directory / "layout"
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(kind: str, data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    tar = blob("layer.v1.tar", layer.read_bytes())
    # The same words as labels, and as a member that no format knows: no engine may take them for annotations.
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": dict(annotations), "Annotations": dict(annotations)},
        "rootfs": {"type": "layers", "diff_ids": [tar["digest"]]},
        "annotations": dict(annotations),
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [tar],
        "annotations": dict(annotations),
    }
    names = {
        "org.opencontainers.image.ref.name": "latest",
        "io.containerd.image.name": "docker.io/library/noted:latest",
    }
    entry = {
        **blob("manifest.v1+json", json.dumps(manifest).encode()),
        "annotations": {**annotations, **names},
    }
    (root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return root
