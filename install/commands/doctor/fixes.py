# SPDX-License-Identifier: Apache-2.0
"""What doctor mends by itself: nothing that ends a container, restarts an engine or changes a decision."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.files import open_nofollow
from cgpu.install.checks.configuration import differences
from cgpu.install.checks.finding import Finding
from cgpu.install.checks.places import PRIVATE, recovery
from cgpu.install.commands.config.apply import apply
from cgpu.install.commands.gc.collect import collect
from cgpu.install.node.report import Situation
from cgpu.kmod.daemon.mounts import clear_fuse

Fix = Callable[[Situation], str]


def mend(now: Situation, found: list[Finding]) -> Iterator[str]:
    """Mend what can be mended, and yield a line of each: what was done, or why it was not."""
    bad = {one.name for one in found if one.verdict in ("warning", "problem")}
    for name, fix in FIXES.items():
        if name not in bad:
            continue
        try:
            done = fix(now)
        except (CgpuError, OSError) as error:
            done = f"not mended: {error}"
        if done:
            yield f"{name}: {done}"


def _configuration(now: Situation) -> str:
    """Put the file in force in the engine that runs."""
    if now.node.ours.engine is None or now.wanted is None:
        return ""
    return apply(differences(now.wanted, now.in_force) if now.in_force is not None else ())


def _containers(now: Situation) -> str:
    removed = [one.id for one in collect(Tree(now.node.ours.tree), dry_run=False).removed]
    return f"removed {', '.join(removed)}" if removed else ""


def _permissions(now: Situation) -> str:
    del now
    done = [name for name, bits in PRIVATE.items() if _close(name, bits)]
    return f"closed {', '.join(done)}" if done else ""


def _close(name: str, bits: int) -> bool:
    """Take a file or folder to root, without these bits; return whether it was otherwise."""
    try:
        # By its descriptor, and not through a link: what others could put in its place is not changed.
        fd = open_nofollow(name)
    except FileNotFoundError:
        return False
    try:
        about = os.fstat(fd)
        if about.st_uid == 0 and not about.st_mode & bits:
            return False
        os.fchown(fd, 0, 0)
        os.fchmod(fd, about.st_mode & 0o7777 & ~bits)
    finally:
        os.close(fd)
    return True


def _engine(now: Situation) -> str:
    """Take away the mount of a daemon that is gone: whoever looks at it fails or waits."""
    if now.node.ours.engine is not None or not now.mounted or now.node.ours.daemon_running:
        return ""
    clear_fuse(now.node.ours.tree)
    return f"unmounted {now.node.ours.tree}"


def _leftovers(now: Situation) -> str:
    module = recovery()
    if module is None:
        return ""
    return "; ".join(module.recover(now.node.root))


# In this order: what a killed installation has left may be why the rest is not well.
FIXES: dict[str, Fix] = {
    "leftovers": _leftovers,
    "draining": _leftovers,
    "engine": _engine,
    "permissions": _permissions,
    "configuration-in-force": _configuration,
    "containers": _containers,
}
