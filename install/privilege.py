# SPDX-License-Identifier: Apache-2.0
"""Refuses a node's commands to users who may not run them."""

from __future__ import annotations

import os

from cgpu.errors import CgpuError


def require_root(command: str) -> None:
    """Refuse a command of another user. Raises CgpuError."""
    if os.geteuid() != 0:
        raise CgpuError(f"{command} needs root: sudo {command}")
