# SPDX-License-Identifier: Apache-2.0
"""containerd's config.toml as text: a runtime called cgpu for its CRI plugin. Text in, text out.

ctr needs no settings: ctr run --runc-binary. The plugin that owns runtimes has a name for each version of the
file (containerd's docs/cri/config.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cgpu.errors import CgpuError, show
from cgpu.runtime_config import toml_block, toml_values
from cgpu.runtime_config.toml_edit import check, child, parse, put

NAME = "cgpu"
TYPE = "io.containerd.runc.v2"
STOCK = "runc"
STOCK_NOTE = "# containerd before 2.0 has runc by itself only where no other runtime is named"
DEFAULT = "default_runtime_name"
HANDED_ON = "pod_annotations"
OURS = "opencgpu.io/*"
PLUGINS = {
    1: "cri",
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
# What a new file is written for: understood by every containerd since 1.3.
NEW_VERSION = 2


@dataclass(frozen=True, slots=True)
class Addition:
    """What settings shall say more. default: ours is the default runtime; version: what a new file has."""

    plugin: str
    runtimes: Mapping[str, Mapping[str, object]]
    default: bool
    version: int

    @property
    def place(self) -> tuple[str, ...]:
        """Return the table that has the runtimes and the name of the default one."""
        return ("plugins", self.plugin, "containerd")

    def values(self) -> dict[tuple[str, ...], object]:
        """Return every new value by its path."""
        found: dict[tuple[str, ...], object] = {(*self.place, DEFAULT): NAME} if self.default else {}
        return found | {(*self.place, "runtimes", name): table for name, table in self.runtimes.items()}


def addition(settings: Mapping[str, object], runtime: str, *, default: bool, keeps_stock: bool) -> Addition:
    """Return what is to be added to the settings in force. keeps_stock: containerd has runc beside any other.

    Raises CgpuError.
    """
    plugin = plugin_of(settings)
    place = ("plugins", plugin, "containerd")
    present = child(settings, *place, "runtimes", NAME)
    if present is not None and child(present, "options", "BinaryName") != runtime:
        table = toml_values.key(*place, "runtimes", NAME)
        raise CgpuError(f"config.toml: [{table}] is there and was not added by this command: remove it first")
    ours = _like(settings, plugin, runtime)
    wanted: dict[str, Mapping[str, object]] = {} if present is not None else {NAME: ours}
    # Before 2.0 a first table of a runtime takes runc away, which the default runtime is by default: the CRI
    # plugin would not load.
    if not keeps_stock and child(settings, *place, "runtimes") in (None, {}):
        wanted[STOCK] = {"runtime_type": TYPE}
    default = default and child(settings, *place, DEFAULT) != NAME
    return Addition(plugin, wanted, default, version_of(settings))


def plugin_of(settings: Mapping[str, object]) -> str:
    """Return the plugin that owns runtimes in this version of the file. Raises CgpuError."""
    return PLUGINS[version_of(settings)]


def version_of(settings: Mapping[str, object]) -> int:
    """Return the version of a file; that of a new one where it says nothing at all. Raises CgpuError."""
    version = settings.get("version", 1 if settings else NEW_VERSION)
    if type(version) is not int or version not in PLUGINS:
        accepted = ", ".join(map(str, PLUGINS))
        raise CgpuError(f"config.toml: version: {show(version)}: accepted are {accepted}")
    return version


def _like(settings: Mapping[str, object], plugin: str, runtime: str) -> dict[str, object]:
    """Return the table of our runtime: that of the runtime that pods get now, with our program.

    As nvidia-ctk does it: SystemdCgroup must be that of the kubelet, and what else an administrator has set
    for pods (a base spec, CNI, annotations, a snapshotter) holds for sliced ones too.
    """
    place = ("plugins", plugin, "containerd")
    default = child(settings, *place, DEFAULT)
    names = [default] if isinstance(default, str) and not default.startswith("nvidia") else []
    for name in (*names, STOCK, "crun"):
        table = child(settings, *place, "runtimes", name)
        # Only runc's own shim knows BinaryName; Kata and gVisor are something else altogether.
        if isinstance(table, dict) and str(table.get("runtime_type", TYPE)).startswith("io.containerd.runc."):
            options = table.get("options")
            kept = options if isinstance(options, dict) else {}
            return {
                "runtime_type": TYPE,
                **table,
                HANDED_ON: _handed_on(table.get(HANDED_ON)),
                "options": {**kept, "BinaryName": runtime},
            }
    return {"runtime_type": TYPE, HANDED_ON: [OURS], "options": {"BinaryName": runtime}}


def _handed_on(present: object) -> list[object]:
    """Return which annotations of a pod its containers get: ours beside those that are there.

    Whether they count is not said here: trust_annotations in cgpu's own configuration does.
    """
    kept = present if isinstance(present, list) else []
    return kept if OURS in kept else [*kept, OURS]


def insert(text: str, new: Addition) -> str:
    """Return a file's text with an addition. Raises CgpuError when its form does not allow it."""
    edited = text
    if new.runtimes:
        tables = {(*new.place, "runtimes", name): table for name, table in new.runtimes.items()}
        lines = []
        for path, table in tables.items():
            lines += [STOCK_NOTE] if path[-1] == STOCK else []
            lines += toml_values.table(path, table)
        values: dict[tuple[str, ...], object] = {**tables}
        if not parse("config.toml", text):
            lines.insert(0, f"version = {new.version}")
            values[("version",)] = new.version
        edited = toml_block.insert(text, lines)
        check("config.toml", text, edited, values)
    return put("config.toml", edited, (*new.place, DEFAULT), NAME) if new.default else edited


def add(text: str, runtime: str, *, default: bool = False) -> str:
    """Return a single file's settings with the runtime, for any containerd. Raises CgpuError."""
    bare = toml_block.strip("config.toml", text)
    settings = parse("config.toml", bare)
    return insert(bare, addition(settings, runtime, default=default, keeps_stock=False))


def remove(text: str) -> str:
    """Return the settings without what was added. Raises CgpuError."""
    return toml_block.strip("config.toml", text)
