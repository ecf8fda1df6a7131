# SPDX-License-Identifier: Apache-2.0
"""podman's containers.conf: a runtime called cgpu. Text in, text out."""

from __future__ import annotations

import json

from cgpu.errors import CgpuError
from cgpu.runtime_config.toml_block import check, child, insert, parse, strip

PATH = "/etc/containers/containers.conf"
RESTART = ""  # podman reads the file at each call
NAME = "cgpu"
TABLE = "engine.runtimes"


def add(text: str, runtime: str) -> str:
    """Return the settings with the runtime at that path. Raises CgpuError when the file cannot take it."""
    bare = strip("containers.conf", text)
    settings = parse("containers.conf", bare)
    present = child(settings, "engine", "runtimes", NAME)
    if present == [runtime]:
        return bare
    if present is not None:
        raise CgpuError(
            f"containers.conf: [{TABLE}] {NAME} is there and was not added by this command: remove it first"
        )
    header = _header(bare)
    lines = [f"{NAME} = [{json.dumps(runtime)}]"]
    edited = insert(bare, lines, header) if header else insert(bare, [f"[{TABLE}]", *lines])
    check("containers.conf", edited, ("engine", "runtimes", NAME), [runtime])
    return edited


def remove(text: str) -> str:
    """Return the settings without what add() put in. Raises CgpuError."""
    return strip("containers.conf", text)


def _header(text: str) -> int:
    """Return the number of the line that opens the table of runtimes; 0 when there is none."""
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("#")[0].strip()
        if name.startswith("[") and name.endswith("]") and name[1:-1].replace(" ", "") == TABLE:
            return number
    return 0
