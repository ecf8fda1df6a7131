# SPDX-License-Identifier: Apache-2.0
"""Places of the installed files. Each is a path on the node, to be hung below a root."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.node_files import below

HOME = "/var/lib/cgpu"
RECORD = HOME + "/install"
LOCK = "/run/cgpu-install.lock"

UNITS = "/etc/systemd/system"
PACKAGE_UNITS = ("/usr/lib/systemd/system", "/lib/systemd/system")
DAEMON_UNIT = "cgpud.service"
# The unit of cgpu-smi --publish, and the one that starts it when the configuration in force is written.
PUBLISHER = "cgpu-smi-publish.service"
PUBLISHER_STARTS = "cgpu-smi-publish.path"
EXPORTER = "cgpu-exporter.service"
# The unit of the wrapper's server, and the one that starts it when a container with a slice starts.
SERVER = "cgpu-container-runtime.service"
SERVER_STARTS = "cgpu-container-runtime.socket"
MODULES_LOAD = "/etc/modules-load.d/cgpu.conf"
MODPROBE = "/etc/modprobe.d/cgpu.conf"
SOURCES = "/usr/src"
DKMS_NAME = "opencgpu"
DKMS = f"/var/lib/dkms/{DKMS_NAME}"

PACKAGE = Path(__file__).resolve().parent.parent
# In a checkout this file lies beside the package, and not in it.
KMOD = PACKAGE / "kmod"


def on_node(root: Path, path: Path) -> str:
    """Return the node's name of a path below a root. Raises CgpuError for one that is not below."""
    try:
        return "/" + str(path.relative_to(root))
    except ValueError as error:
        raise CgpuError(f"{path}: is not below {root}") from error


def target(root: Path, path: str | Path) -> Path:
    """Return the file that a path of the node is, with all links followed. Raises CgpuError.

    A link that leads out of a root other than / is refused: below it lies a copy, outside of it the machine.
    """
    real = Path(os.path.realpath(below(root, path)))
    top = Path(os.path.realpath(root))
    if real != top and top not in real.parents:
        raise CgpuError(f"{path}: is a link that leads out of {root}; only files below it are edited")
    return real


def has_unit(root: Path, name: str) -> bool:
    """Return whether systemd has a unit's file, of cgpu install or of a package."""
    return any(below(root, f"{folder}/{name}").exists() for folder in (UNITS, *PACKAGE_UNITS))


def program(name: str) -> Path:
    """Return the path of one of our own commands: the one beside this interpreter. Raises CgpuError."""
    path = Path(sys.executable).parent / name
    if not os.access(path, os.X_OK):
        raise CgpuError(f"{path}: is not there: install the package with the Python that runs this command")
    return Path(paths.lasting(str(path)))
