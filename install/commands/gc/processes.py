# SPDX-License-Identifier: Apache-2.0
"""Whether a registered container still has processes, by its cgroup. Where that cannot be seen, it has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from cgpu.errors import CgpuError
from cgpu.install.node.snapshot import Slice
from cgpu.kmod.daemon.tree.mounts import unescape

# Of the host's own first namespaces, linux/proc_ns.h.
FIRST = {"cgroup": 0xEFFFFFFB, "pid": 0xEFFFFFFC}
MAX_GROUPS = 4096
# How container runtimes name a container's group, docs/cgpu_km.md.
NAMED = re.compile(r"(?:(?:docker|cri-containerd|libpod|crio)-)?([A-Za-z0-9_.+-]+?)(?:\.scope)?")


def check_view(status: dict[str, Any] | None) -> None:
    """Raise CgpuError unless we see processes and cgroups as the engine does.

    status: what cgpud says of itself; None: the kernel's engine, which sees all.
    """
    for kind, first in FIRST.items():
        ours = os.stat(f"/proc/self/ns/{kind}").st_ino
        theirs = first
        if status is not None:
            try:
                theirs = os.stat(f"/proc/{int(status['pid'])}/ns/{kind}").st_ino
            except (OSError, KeyError, ValueError) as error:
                raise CgpuError("cgpud's process cannot be looked at: run it on the host") from error
        if ours != theirs:
            raise CgpuError(f"the engine lives in another {kind} namespace: run it on the host")


def is_alive(one: Slice, mountinfo: str, running: frozenset[str]) -> bool:
    """Tell whether a container has processes. running: the cgroups of all processes."""
    if one.cgroup is None:
        return any(is_named(group, one) for group in running)
    if any(group == one.cgroup or group.startswith(one.cgroup + "/") for group in running):
        return True
    return any(_has_processes(path) for path in places(one.cgroup, mountinfo))


def is_named(group: str, one: Slice) -> bool:
    """Tell whether a cgroup, or one above it, is named after a container that was registered by name."""
    return any(_is_its(part, one) for part in PurePosixPath(group).parts)


def places(group: str, mountinfo: str) -> Iterator[Path]:
    """Yield where a cgroup lies in the hierarchies that are mounted."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.partition(" ")[0]
        if len(fields) < 5 or kind not in ("cgroup", "cgroup2"):
            continue
        shown = PurePosixPath(unescape(fields[3]))
        inside = PurePosixPath(group)
        if inside.is_relative_to(shown) and ".." not in inside.parts:
            yield Path(unescape(fields[4])) / inside.relative_to(shown)


def _is_its(part: str, one: Slice) -> bool:
    found = NAMED.fullmatch(part)
    return found is not None and (found[1] == one.id or (len(found[1]) == 64 and found[1][:12] == one.name))


def _has_processes(group: Path) -> bool:
    """Tell whether a group or one below it has a process. More groups than are looked at: it has."""
    folders = [group]
    for count, folder in enumerate(folders):
        if count >= MAX_GROUPS:
            return True
        try:
            if (folder / "cgroup.procs").read_text():
                return True
            folders += [entry for entry in folder.iterdir() if entry.is_dir()]
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False
