# SPDX-License-Identifier: Apache-2.0
"""Every path that is used at run time."""

from __future__ import annotations

import os

CONFIG = "/etc/cgpu/config.yaml"

RUN = "/run/cgpu"
EFFECTIVE = RUN + "/config.json"
CONTROL_SOCKET = RUN + "/control.sock"
SECCOMP_SOCKET = RUN + "/seccomp.sock"
KEEPER_SOCKET = RUN + "/keeper.sock"
CDI = RUN + "/cdi.json"
PID = RUN + "/cgpud.pid"
SIM = RUN + "/sim"

TREE_MODULE = "/proc/cgpu_km"
TREE_DAEMON = "/run/cgpu_km"
TREES = (TREE_MODULE, TREE_DAEMON)


def tree(configured: str | None) -> str:
    """Return the tree's path: the configured one, else the module's when it is loaded, else the daemon's."""
    if configured is not None:
        return configured
    return TREE_MODULE if os.path.exists(TREE_MODULE + "/version") else TREE_DAEMON


def start_command(tree_path: str) -> str:
    """Return the command that brings back the engine behind a tree."""
    return "modprobe cgpu_km" if tree_path == TREE_MODULE else "systemctl start cgpud"
