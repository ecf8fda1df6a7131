# SPDX-License-Identifier: Apache-2.0
"""The driver's own memory limits, through NVIDIA's library and its Python binding.

Facts are of driver 615.71.09: src/nvidia/src/kernel/mem_mgr/memacct.c of its open kernel modules, and
docs.nvidia.com/deploy/mps/latest/mpsv3-memory-partitioning.html.
"""

from __future__ import annotations

import ctypes
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgpu.errors import CgpuError

LIBRARY = "libnvidia-ml.so.1"
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",  # a driver that runs as a container
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib64",
)
FUNCTIONS = ("nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1")


class NvmlError(CgpuError):
    """The library, or the driver behind it, refused. code is the library's."""

    def __init__(self, what: str, code: int, text: str) -> None:
        """Say what was tried and what came of it."""
        super().__init__(f"{what}: {text} (NVML error {code})")
        self.code = code


@dataclass(frozen=True, slots=True)
class Limits:
    """What the driver says of one cgroup on one card, in bytes. hard None: it may take all."""

    hard: int | None
    soft: int
    used: int


def library_at(asked: str | None) -> Path:
    """Return the library to load, by its whole path: the environment has no say. Raises CgpuError."""
    if asked is not None:
        return _trusted(Path(asked))
    for folder in FOLDERS:
        path = Path(folder, LIBRARY)
        if path.exists():
            return _trusted(path)
    raise CgpuError(f"{LIBRARY} is in none of {', '.join(FOLDERS)}; name it: nvml_library")


def _trusted(path: Path) -> Path:
    # It becomes part of a process of root's.
    try:
        real = path.resolve(strict=True)
        for one in (real, real.parent):
            about = one.stat()
            if about.st_uid != 0 or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise CgpuError(f"{one}: others than root may write it; it is not loaded")
    except OSError as error:
        raise CgpuError(f"{path}: {error.strerror}") from error
    return real


class Nvml:
    """The library, loaded and ready. One thread at a time."""

    def __init__(self, path: Path) -> None:
        """Load it. Raises CgpuError."""
        try:
            import pynvml
        except ImportError as error:
            raise CgpuError("nvidia-ml-py is not installed: pip install nvidia-ml-py") from error
        for name in FUNCTIONS:
            if not hasattr(pynvml, name):
                raise CgpuError("nvidia-ml-py is older than 13.615: pip install -U nvidia-ml-py")
        self._binding: Any = pynvml
        self._devices: dict[str, Any] = {}
        try:
            # The binding itself would have the loader search, LD_LIBRARY_PATH first.
            pynvml.nvmlLib = ctypes.CDLL(str(path))
        except OSError as error:
            raise CgpuError(f"{path}: cannot be loaded: {error}") from error
        for name in FUNCTIONS:
            if not hasattr(pynvml.nvmlLib, name):
                raise CgpuError(f"{path}: has no {name}; drivers from 615 on have it")
        self._call("nvmlInit", "nvmlInit")

    def driver_version(self) -> str:
        """Return the version of the driver that the library speaks to."""
        return str(self._call("the driver's version", "nvmlSystemGetDriverVersion"))

    def has_mig(self, uuid: str) -> bool:
        """Tell whether a card is, or is about to be, cut into MIG devices. The driver limits nothing then."""
        try:
            current, pending = self._call(f"{uuid}: MIG", "nvmlDeviceGetMigMode", self._device(uuid))
        except NvmlError as error:
            if error.code == self._binding.NVML_ERROR_NOT_SUPPORTED:
                return False
            raise
        return bool(current or pending)

    def set_hard(self, uuid: str, directory: str, hard: int | None) -> None:
        """Limit a cgroup on a card; None: no longer.

        There is never a soft limit: one that is left when its cgroup goes stays with those above it for good.
        """
        limits = self._binding.c_nvmlSetMemoryLimits_v1_t()
        limits.nameSpace = os.fsencode(directory)
        limits.softLimit = 0
        limits.hardLimit = self._binding.NVML_DEVICE_MEMORY_LIMIT_MAX if hard is None else hard
        what = f"{uuid}: hard limit {'none' if hard is None else hard} of {directory}"
        self._call(what, "nvmlDeviceSetMemoryLimits_v1", self._device(uuid), limits)

    def limits(self, uuid: str, directory: str) -> Limits:
        """Return what holds for a cgroup on a card: its own limits, or else those of one above it."""
        limits = self._binding.c_nvmlGetMemoryLimits_v1_t()
        limits.nameSpace = os.fsencode(directory)
        what = f"{uuid}: limits of {directory}"
        self._call(what, "nvmlDeviceGetMemoryLimits_v1", self._device(uuid), limits)
        hard = int(limits.hardLimit)
        unlimited = hard == self._binding.NVML_DEVICE_MEMORY_LIMIT_MAX
        return Limits(None if unlimited else hard, int(limits.softLimit), int(limits.currentUsed))

    def _device(self, uuid: str) -> Any:
        if uuid not in self._devices:
            self._devices[uuid] = self._call(f"{uuid}", "nvmlDeviceGetHandleByUUID", uuid)
        return self._devices[uuid]

    def _call(self, what: str, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._binding, name)(*arguments)
        except self._binding.NVMLError as error:
            raise NvmlError(what, int(error.value), str(error)) from error
