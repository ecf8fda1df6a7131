# SPDX-License-Identifier: Apache-2.0
"""GPUs as containers saw them, in files of the node: they outlive pods, logs and the API server.

A container first writes the probe's output into a file, which is named by its pod's name and UID and the
number of its start. So a container that ever ran without its limit is found in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.engine import MIB
from tests.kubernetes.harness.slices import container

NAME = "$POD.$UID.`/busybox cat /proc/sys/kernel/random/uuid`"
LOOK = f'N="{NAME}"; /cgpu-probe gpu=0 info gpu=1 info >"/seen/.$N" 2>&1; /busybox mv "/seen/.$N" "/seen/$N"'


def looking(folder: Path, then: str) -> dict[str, Any]:
    """Return parts of a pod whose container looks, and then does something. Its claim is called gpu."""
    names = {"POD": "metadata.name", "UID": "metadata.uid"}
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in names.items()]
    mount = {"name": "seen", "mountPath": "/seen"}
    volume = {"name": "seen", "hostPath": {"path": str(folder), "type": "Directory"}}
    claims = {"claims": [{"name": "gpu"}]}
    command = ["/busybox", "sh", "-c", f"{LOOK}; {then}"]
    looks = container("main", command, resources=claims, env=env, volumeMounts=[mount])
    return {"containers": [looks], "volumes": [volume]}


@dataclass(frozen=True)
class Sight:
    """Cards that one start of a container saw, by UUID in small letters, and the MiB of each."""

    pod: str
    uid: str
    cards: Mapping[str, int]


def sights(folder: Path) -> list[Sight]:
    return [_sight(path) for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def _sight(path: Path) -> Sight:
    pod, uid, _ = path.name.split(".")
    lines = [line.split() for line in path.read_text().splitlines() if "uuid=" in line]
    found = [dict(word.split("=", 1) for word in line if "=" in word) for line in lines]
    return Sight(pod, uid, {one["uuid"].lower(): int(one["total"]) // MIB for one in found if one["uuid"]})
