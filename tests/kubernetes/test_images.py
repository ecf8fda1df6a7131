# SPDX-License-Identifier: Apache-2.0
"""The image that the chart installs."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import PurePosixPath

from tests.kubernetes import images
from tests.kubernetes.harness.cluster import Cluster

SHELLS = {"ash", "bash", "busybox", "dash", "sh"}
SET_ID = 0o6000


def test_contents(cluster: Cluster) -> None:
    """`scripts/kubernetes/build-image kubernetes` makes an image with Python, and no shell or other user."""
    with tarfile.open(images.image()) as archive:
        (manifest,) = json.loads(read(archive, "manifest.json"))
        config = json.loads(read(archive, manifest["Config"]))["config"]
        members = [one for name in manifest["Layers"] for one in layer(archive, name)]
    assert manifest["RepoTags"] == [images.NAME]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/usr/bin/cgpu"]
    names = {PurePosixPath(one.name) for one in members}
    assert {str(one) for one in names if one.parent == PurePosixPath("usr/bin")} == {
        "usr/bin/cgpu",
        "usr/bin/cgpu-probe",
        "usr/bin/python3",
    }
    assert not SHELLS & {one.name for one in names}
    assert [one.name for one in members if one.mode & SET_ID] == []
    assert not any("pip" in one.parts for one in names)


def read(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    assert stream is not None
    return stream.read()


def layer(archive: tarfile.TarFile, name: str) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(read(archive, name))) as found:
        return found.getmembers()
