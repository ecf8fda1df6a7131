# SPDX-License-Identifier: Apache-2.0
"""The GPUs as devices of the Container Device Interface: docker and podman take --device opencgpu.io/gpu=0.

Each of them does no more than name a GPU, by a variable that cgpu/request reads: a name has no room for an
amount, and without our runtime it gives nothing (cncf-tags/container-device-interface).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from cgpu.replace import Meta, write
from cgpu.request.names import CDI_KIND, CDI_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# The first in which a name may begin with a digit (specs-go/version.go of CDI). Newer engines check that.
VERSION = "0.5.0"


def specification(gpus: Iterable[tuple[int, str]]) -> dict[str, Any]:
    """Describe each GPU under its index and its UUID, and `all`. gpus: index and UUID, which may be empty."""
    gpus = list(gpus)
    devices = [
        {"name": name, "containerEdits": {"env": [f"{CDI_VARIABLE}{index}=1"]}}
        for index, uuid in gpus
        for name in filter(None, (str(index), uuid))
    ]
    every = [f"{CDI_VARIABLE}{index}=1" for index, _ in gpus]
    if every:
        devices.append({"name": "all", "containerEdits": {"env": every}})
    return {"cdiVersion": VERSION, "kind": CDI_KIND, "devices": devices}


def publish(gpus: Iterable[tuple[int, str]], path: Path) -> None:
    """Write the description to where container engines look. Raises OSError."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o755)  # whatever the umask: engines of users look there too
    text = json.dumps(specification(gpus), indent=1) + "\n"
    write(path, text.encode(), Meta(0o644, os.geteuid(), os.getegid()))
