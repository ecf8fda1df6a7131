# SPDX-License-Identifier: Apache-2.0
"""mfusepy on libfuse 3. By itself it would take libfuse 2 where a machine has both."""

from __future__ import annotations

import importlib
import os
from typing import Any

from cgpu.kmod.daemon.tree import libfuse

VARIABLE = "FUSE_LIBRARY_PATH"  # where mfusepy looks first


def _import() -> Any:
    if VARIABLE in os.environ:
        return importlib.import_module("mfusepy")
    os.environ[VARIABLE] = libfuse.find()
    try:
        return importlib.import_module("mfusepy")
    finally:
        del os.environ[VARIABLE]


mfusepy = _import()
