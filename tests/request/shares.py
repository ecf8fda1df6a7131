# SPDX-License-Identifier: Apache-2.0
"""Shares of pods for tests: ids, variables, annotations, and files as the node's agent writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cgpu import shares
from cgpu.slice import ATTRIBUTES
from tests.client.support import MIB, uuid

SHARE = "6f1c2a34-0b5d-4e6f-8a9b-0c1d2e3f4a5b"
OTHER_SHARE = "0a1b2c3d-4e5f-4a6b-9c8d-7e6f5a4b3c2d"
POD = "11111111-2222-4333-8444-555555555555"
OTHER_POD = "99999999-2222-4333-8444-555555555555"
SIZE = 6043 * MIB
VOID = "NVIDIA_VISIBLE_DEVICES"


def variable(share: str) -> str:
    return "OPENCGPU_SHARE_" + share.upper().replace("-", "_")


def asking(*ids: str) -> dict[str, str]:
    """Return what the CDI devices of shares set."""
    return {**{variable(share): share for share in ids}, VOID: "void"}


def by_containerd(pod: str = POD, container: str = "main", kind: str = "container") -> dict[str, str]:
    """Return the annotations of containerd's CRI."""
    names = {"container-type": kind, "sandbox-uid": pod, "container-name": container, "sandbox-name": "p"}
    return {f"io.kubernetes.cri.{name}": value for name, value in names.items()}


def by_crio(root: str, pod: str = POD, container: str = "main", kind: str = "container") -> dict[str, str]:
    """Return the annotations of CRI-O, for a root file system at that path."""
    return {
        "io.container.manager": "cri-o",
        "io.kubernetes.cri-o.MountPoint": root,
        "io.kubernetes.cri-o.ContainerType": kind,
        "io.kubernetes.pod.uid": pod,
        "io.kubernetes.container.name": container,
    }


def document(**changes: object) -> dict[str, Any]:
    whole = {
        "version": 1,
        "share": SHARE,
        "claim": {"namespace": "team-a", "name": "train-gpu-x7", "uid": "c-1"},
        "gpu": uuid(0),
        **{one.name: one.default for one in ATTRIBUTES},
        "memsize": SIZE,
        "pods": {POD: ["main", "init"]},
    }
    return {**whole, **changes}


def put(folder: Path, **changes: object) -> str:
    """Write the file of a share with these members; return its id."""
    made = document(**changes)
    share = str(made["share"])
    shares.write(shares.parse(made, share, "here"), str(folder))
    return share
