# SPDX-License-Identifier: Apache-2.0
"""The libfuse 3 of this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from cgpu.distribution import here, install_command
from cgpu.errors import CgpuError

LIBRARIES = ("libfuse3.so.4", "libfuse3.so.3")  # the former from fuse 3.17 on


def find(load: Callable[[str], object] = ctypes.CDLL) -> str:
    """Return the newest libfuse 3 that the dynamic linker finds. Raises CgpuError."""
    why: list[str] = []
    for name in LIBRARIES:
        try:
            load(name)
        except OSError as error:
            why.append(str(error))
        else:
            return name
    install = install_command("fuse3", here())
    raise CgpuError(f"libfuse 3 cannot be loaded ({'; '.join(why)}); {install}")
