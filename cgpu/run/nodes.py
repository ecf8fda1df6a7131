# SPDX-License-Identifier: Apache-2.0
"""The device nodes of a slice. Real cards have theirs in the host's /dev, which is left as it is.

Nodes of simulated cards lie elsewhere; the engine's CDI description says what is mounted where. They are put
into a /dev of the command's own, in a mount namespace of its own: the host's /dev gets no new names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.run import calls
from cgpu.runtime_config.oci_runtime.fields import objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.runtime_config.oci_runtime.fields import Table

DEV = "/dev"
# The driver's nodes on the host: those of cards that the engine does not serve must not be reached.
DRIVERS = "nvidia"
EDITS = ("deviceNodes", "mounts")
TMPFS_OPTIONS = "mode=0755,size=1m"


@dataclass(frozen=True, slots=True)
class Bind:
    """A node of the host, and its name in /dev."""

    source: str
    name: str


def binds(edits: Sequence[Table]) -> tuple[Bind, ...]:
    """Return what must be mounted for some CDI edits: nothing where nodes are in place. Raises CgpuError."""
    found = []
    for edit in edits:
        unknown = [key for key, value in edit.items() if value and key not in EDITS]
        if unknown:
            raise CgpuError(
                f"{paths.CDI}: containerEdits.{show(unknown[0])}: expected one of {', '.join(EDITS)}"
            )
        places = [_places(node) for node in objects(edit, "deviceNodes")]
        places += [(mount.get("hostPath"), mount.get("containerPath")) for mount in objects(edit, "mounts")]
        found += [_bind(source, inside) for source, inside in places if source != inside]
    return tuple(found)


def _places(node: Table) -> tuple[object, object]:
    return node.get("hostPath", node.get("path")), node.get("path")


def _bind(source: object, inside: object) -> Bind:
    if isinstance(source, str) and isinstance(inside, str) and source.startswith("/"):
        path = PurePosixPath(inside)
        if str(path.parent) == DEV and path.name not in ("", ".."):
            return Bind(source, path.name)
    raise CgpuError(
        f"{paths.CDI}: {show(source)} at {show(inside)}: expected absolute paths, and names in {DEV}"
    )


def give(nodes: Sequence[Bind]) -> None:
    """Give this process a /dev of its own with these nodes and all of the host's others. Raises CgpuError."""
    place = DEV
    try:
        calls.unshare_mounts()
        host = os.open(DEV, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The mount hides the host's /dev, which the descriptor still reaches.
            calls.mount("tmpfs", DEV, "tmpfs", calls.MS_NOSUID, TMPFS_OPTIONS)
            for name in os.listdir(host):
                if not name.startswith(DRIVERS):
                    place = f"{DEV}/{name}"
                    # A node may go while this is done, with its device.
                    with contextlib.suppress(FileNotFoundError):
                        _copy(f"/proc/self/fd/{host}/{name}", place)
        finally:
            os.close(host)
        for node in nodes:
            place = node.source
            _bind_file(node.source, f"{DEV}/{node.name}")
    except OSError as error:
        raise CgpuError(f"{place}: cannot be put into a {DEV} of its own ({error.strerror})") from error


def _copy(source: str, target: str) -> None:
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISDIR(status.st_mode):
        os.mkdir(target)
        calls.mount(source, target, "", calls.MS_BIND | calls.MS_REC)
    elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        # A node and no mount: the terminal multiplexer looks for pts beside itself.
        _copy_node(source, target, status)
    else:
        _bind_file(source, target)


def _copy_node(source: str, target: str, status: os.stat_result) -> None:
    try:
        os.mknod(target, status.st_mode, status.st_rdev)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        _bind_file(source, target)
        return
    os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))


def _bind_file(source: str, target: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    calls.mount(source, target, "", calls.MS_BIND)
