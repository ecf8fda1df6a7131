# SPDX-License-Identifier: Apache-2.0
"""The nodes /dev/char/MAJOR:MINOR, by which runc and systemd know a device.

udev makes them for devices that are in sysfs, and NVIDIA's are not. runc 1.1.3 to 1.1.6 tells systemd of no
device without one, and systemd takes such a device from running containers with the next `systemctl
daemon-reload` (https://github.com/opencontainers/runc/issues/3708).
"""

from __future__ import annotations

import os
import stat

from cgpu import paths
from cgpu.runtime_config.oci_runtime.fields import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cgpu.runtime_config.oci_runtime.fields import Table


def publish(edits: Sequence[Table], folder: str = "") -> None:
    """Have a node for each character device that edits give by number, if the caller may make nodes."""
    for path, device in _missing(edits, folder):
        _make(path, device)


def are_published(edits: Sequence[Table], folder: str = "") -> bool:
    """Return whether each of these nodes is there, or none can be."""
    return not any(_missing(edits, folder))


def _missing(edits: Sequence[Table], folder: str) -> Iterator[tuple[str, int]]:
    folder = folder or paths.DEVICE_NUMBERS
    if not os.path.isdir(folder):  # without udev, and so without systemd to look there
        return
    for edit in edits:
        for node in objects(edit, "deviceNodes"):
            major, minor = node.get("major"), node.get("minor")
            if node.get("type") == "c" and isinstance(major, int) and isinstance(minor, int):
                path, device = f"{folder}/{major}:{minor}", os.makedev(major, minor)
                if not _is_there(path, device):
                    yield path, device


def _is_there(path: str, device: int) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == device


def _make(path: str, device: int) -> None:
    try:
        # A link of before, to a node that is gone or has another number now.
        if os.path.islink(path):
            os.unlink(path)
        # Only root opens it: it is there for its name.
        os.mknod(path, stat.S_IFCHR | 0o600, device)
    except OSError:
        return
