# SPDX-License-Identifier: Apache-2.0
"""The shares of a claim as devices of the Container Device Interface.

A device is two variables and nothing else: the first tells our runtime which share the container has, the
second keeps NVIDIA's programs away from it. Without our runtime the container has no GPU at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cgpu.replace import Meta, remove, write
from cgpu.request.names import SHARE_KIND, share_variable

VERSION = "0.5.0"
PREFIX = "opencgpu-share-"


def device_id(share: str) -> str:
    """Return the name by which the kubelet hands a share's device to the container engine."""
    return f"{SHARE_KIND}={share}"


def whole_card(uuid: str) -> str:
    """Return the device of a whole card, which NVIDIA's toolkit describes: it names cards by UUID, too."""
    return f"nvidia.com/gpu={uuid}"


def specification(shares: Iterable[str]) -> dict[str, Any]:
    """Describe the devices of a claim's shares."""
    devices = [
        {
            "name": share,
            "containerEdits": {"env": [f"{share_variable(share)}={share}", "NVIDIA_VISIBLE_DEVICES=void"]},
        }
        for share in shares
    ]
    return {"cdiVersion": VERSION, "kind": SHARE_KIND, "devices": devices}


def publish(folder: Path, claim: str, shares: Iterable[str]) -> None:
    """Write the file of a claim, named by its UID. Raises OSError."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    text = json.dumps(specification(shares), indent=1) + "\n"
    write(_path(folder, claim), text.encode(), Meta(0o644, os.geteuid(), os.getegid()))


def withdraw(folder: Path, claim: str) -> None:
    """Remove the file of a claim, if it is there. Raises OSError."""
    if folder.is_dir():
        remove(_path(folder, claim))


def published(folder: Path) -> set[str]:
    """Return the UIDs of all claims that have a file."""
    return {path.stem.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*.json")}


def _path(folder: Path, claim: str) -> Path:
    return folder / f"{PREFIX}{claim}.json"
