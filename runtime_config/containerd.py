# SPDX-License-Identifier: Apache-2.0
"""containerd's config.toml: a runtime called cgpu for its CRI plugin. Text in, text out.

ctr needs no settings: ctr run --runc-binary. The plugin that owns runtimes has a name for each version of the
file (containerd's docs/cri/config.md).
"""

from __future__ import annotations

import json

from cgpu.errors import CgpuError, show
from cgpu.runtime_config.toml_block import check, child, insert, parse, strip

PATH = "/etc/containerd/config.toml"
RESTART = "systemctl restart containerd"
NAME = "cgpu"
TYPE = "io.containerd.runc.v2"
PLUGINS = {
    1: "cri",
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
# What a new file is written for: understood by every containerd since 1.3.
NEW_VERSION = 2


def add(text: str, runtime: str) -> str:
    """Return the settings with the runtime at that path. Raises CgpuError when the file cannot take it."""
    bare = strip("config.toml", text)
    settings = parse("config.toml", bare)
    new = not settings
    plugin = PLUGINS[NEW_VERSION] if new else _plugin(settings)
    wanted = {"runtime_type": TYPE, "options": {"BinaryName": runtime}}
    table = f'plugins."{plugin}".containerd.runtimes.{NAME}'
    path = ("plugins", plugin, "containerd", "runtimes", NAME)
    present = child(settings, *path)
    if present == wanted:
        return bare
    if present is not None:
        raise CgpuError(f"config.toml: [{table}] is there and was not added by this command: remove it first")
    lines = [
        *([f"version = {NEW_VERSION}"] if new else []),
        f"[{table}]",
        f"  runtime_type = {json.dumps(TYPE)}",
        f"  [{table}.options]",
        f"    BinaryName = {json.dumps(runtime)}",
    ]
    edited = insert(bare, lines)
    check("config.toml", edited, path, wanted)
    return edited


def remove(text: str) -> str:
    """Return the settings without what add() put in. Raises CgpuError."""
    return strip("config.toml", text)


def _plugin(settings: dict[str, object]) -> str:
    version = settings.get("version", 1)
    if not isinstance(version, int) or version not in PLUGINS:
        accepted = ", ".join(map(str, PLUGINS))
        raise CgpuError(f"config.toml: version: {show(version)}: accepted are {accepted}")
    return PLUGINS[version]
