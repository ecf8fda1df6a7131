# SPDX-License-Identifier: Apache-2.0
"""The configuration in force, for programs that must start fast: reads /run/cgpu/config.json."""

from __future__ import annotations

import errno
import os

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.fastjson import loads
from cgpu.files import read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Value = bool | int | str | None

# Names, defaults and types, in the order of cgpu/config/schema.json; a test compares the two.
DEFAULTS: dict[str, Value] = {
    "tree": None,
    "low_level_runtime": None,
    "shared_node": False,
    "allow_environment": True,
    "trust_annotations": "auto",
    "allow_disable": True,
    "allow_privileged": False,
    "max_mem_container_mib": None,
    "max_schd_weight": None,
    "default_memsize": 0,
    "policy": 1,
    "max_inst": 20,
    "prio_ratio": 80,
    "slice_us": 2000,
    "allow_zero_weight": False,
    "enforce": True,
    "allow_unknown_driver": False,
    "memory_backend": "auto",
    "nvml_library": None,
    "managed_memory": True,
    "context_memory": 100663296,
    "drift_tolerance": 536870912,
    "drift_reaction": "report",
    "workers": 0,
    "hook_timeout": 10,
    "log_level": "info",
    "supervise_shared_mappings": True,
}
_TEXTS = ("tree", "low_level_runtime", "nvml_library")
_NUMBERS = ("max_mem_container_mib", "max_schd_weight")
# What shared_node forbids, whatever else is said.
CLOSED = ("allow_environment", "allow_disable")
MAX_BYTES = 1 << 16


class Effective:
    """The value of every configuration key. Attributes are named as the keys; treat it as read-only."""

    __slots__ = tuple(DEFAULTS)

    tree: str | None
    low_level_runtime: str | None
    shared_node: bool
    allow_environment: bool
    trust_annotations: str
    allow_disable: bool
    allow_privileged: bool
    max_mem_container_mib: int | None
    max_schd_weight: int | None
    default_memsize: int
    policy: int
    max_inst: int
    prio_ratio: int
    slice_us: int
    allow_zero_weight: bool
    enforce: bool
    allow_unknown_driver: bool
    memory_backend: str
    nvml_library: str | None
    managed_memory: bool
    context_memory: int
    drift_tolerance: int
    drift_reaction: str
    workers: int
    hook_timeout: int
    log_level: str
    supervise_shared_mappings: bool

    def __init__(self, **values: Value) -> None:
        """Take the given values, and the default for every other key. The values are not checked."""
        for key, default in DEFAULTS.items():
            setattr(self, key, values.pop(key, default))
        if values:
            raise TypeError(f"no such configuration key: {next(iter(values))}")
        if self.shared_node:
            for key in CLOSED:
                setattr(self, key, False)

    def to_dict(self) -> dict[str, Value]:
        """Return all keys with their values."""
        return {key: getattr(self, key) for key in DEFAULTS}

    def replace(self, **values: Value) -> Effective:
        """Return a copy with some values changed."""
        return Effective(**{**self.to_dict(), **values})


def load(path: str = paths.EFFECTIVE) -> Effective:
    """Read the effective configuration; the defaults when the file is not there. Raises CgpuError."""
    try:
        raw = read_bounded(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return Effective()
        denied = error.errno == errno.EACCES
        as_root = "only root reaches the engine; run it as root, such as by sudo"
        advice = as_root if denied else paths.config_command("restart")
        raise CgpuError(f"{path}: cannot be read ({error.strerror}): {advice}") from error
    try:
        document = loads(raw)
    except ValueError as error:
        again = paths.config_command("restart")
        raise CgpuError(f"{path}: is not JSON ({error}); write it anew: {again}") from error
    return _from_document(path, document)


def check_started(path: str = paths.EFFECTIVE, source: str = paths.CONFIG) -> None:
    """Raise CgpuError when the node has a configuration that no engine has read since it started.

    What it forbids is not known then, so a container that says anything about GPUs must not start.
    """
    if not os.path.exists(source):
        return
    if paths.is_module_loaded():
        # The settings in the tree are those of this very load; the file may be of an engine before it.
        if not is_configured() or not os.path.exists(path):
            raise CgpuError(f"{source}: not applied since cgpu_km was loaded: {paths.config_command('')}")
    elif not os.path.exists(path):
        start = paths.start_command(paths.tree(None))
        raise CgpuError(f"{source}: no engine has read it since this machine started: {start}")


def is_configured() -> bool:
    """Return whether the kernel module has been given a configuration since it was loaded."""
    try:
        return read_bounded(paths.CONFIGURED, MAX_BYTES).startswith(b"Y")
    except OSError:
        return False


def _anew() -> str:
    return f"write it anew: {paths.config_command('restart')}"


def _from_document(path: str, document: object) -> Effective:
    if not isinstance(document, dict):
        raise CgpuError(f"{path}: must hold a JSON object; {_anew()}")
    _check(path, document)
    return Effective(**document)


def _check(path: str, document: Mapping[str, object]) -> None:
    # The engine has validated the file against the schema. This only keeps a stale or half-understood one
    # from being read as something else.
    for key, value in document.items():
        if key not in DEFAULTS or not _fits(key, value):
            wanted = f"keys and types of docs/configuration.md; {_anew()}"
            raise CgpuError(f"{path}: {show(key)}: {show(value)}: expected {wanted}")


def _fits(key: str, value: object) -> bool:
    if value is None:
        return DEFAULTS[key] is None
    if key in _TEXTS:
        return type(value) is str
    return type(value) is (int if key in _NUMBERS else type(DEFAULTS[key]))
