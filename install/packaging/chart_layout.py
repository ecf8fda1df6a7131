# SPDX-License-Identifier: Apache-2.0
"""Lay out a chart's archive as an OCI image, as `helm push` puts it into a registry.

usage: python -m cgpu.install.packaging.chart_layout CHART.tgz OUTDIR

helm itself writes no layout, and what it pushes has the time in it.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

# By https://helm.sh/docs/topics/registries/#helm-chart-manifest.
CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def main(archive: Path, target: Path) -> None:
    """Write the layout into a folder that is not there yet."""
    blobs = target / "blobs/sha256"
    blobs.mkdir(parents=True)
    chart = read_chart(archive)
    config = put_blob(blobs, encode(chart), CONFIG)
    content = put_blob(blobs, archive.read_bytes(), CONTENT)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [content]}
    named = put_blob(blobs, encode(manifest), MANIFEST)
    named["annotations"] = {"org.opencontainers.image.ref.name": chart["version"]}
    (target / "index.json").write_bytes(encode({"schemaVersion": 2, "manifests": [named]}))
    (target / "oci-layout").write_bytes(encode({"imageLayoutVersion": "1.0.0"}))


def read_chart(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as chart:
        stream = chart.extractfile("opencgpu/Chart.yaml")
        assert stream is not None
        return dict(yaml.safe_load(stream))


def put_blob(blobs: Path, data: bytes, kind: str) -> dict[str, Any]:
    """Write a blob under its digest, and return its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
