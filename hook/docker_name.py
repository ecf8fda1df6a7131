# SPDX-License-Identifier: Apache-2.0
"""Docker's name of a container. Docker passes no name to hooks; its config.v2.json has it.

Read when a container is given its slice or is refused.
"""

from __future__ import annotations

from cgpu.fastjson import loads
from cgpu.files import read_bounded

MAX_SPEC = 16 << 20
MAX_FILE = 1 << 20


def docker_name(bundle: str, container: str) -> str:
    """Return docker's name of a container, nothing where no file says it. bundle: below OF_DOCKER."""
    try:
        folder = _folder(read_bounded(f"{bundle}/config.json", MAX_SPEC), container)
        found = loads(read_bounded(f"{folder}/config.v2.json", MAX_FILE)) if folder else None
    except (OSError, ValueError):
        return ""
    name = found.get("Name") if isinstance(found, dict) and found.get("ID") == container else None
    return name.removeprefix("/") if isinstance(name, str) else ""


def _folder(spec: bytes, container: str) -> str:
    """Return docker's folder of a container, which mounts such as /etc/hostname come from."""
    end = f"/containers/{container}/".encode()
    place = spec.find(end)
    start = spec.rfind(b'"', 0, max(place, 0)) + 1
    return spec[start : place + len(end) - 1].decode() if spec[start : start + 1] == b"/" else ""
