# SPDX-License-Identifier: Apache-2.0
"""Draining a node: new slices are refused, and the existing ones are waited for.

While the file MARK exists, the tree's client refuses to register a container for the hook and for cgpu run.
MARK is in /run, so a reboot removes it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cgpu import paths, shares
from cgpu.client.tree import EngineDownError, Tree
from cgpu.errors import CgpuError
from cgpu.install.node.facts.ours import possible_trees
from cgpu.install.runner import Runner
from cgpu.kmod.daemon.store import notify_socket
from cgpu.node_files import below

Say = Callable[[str], None]
MARK = paths.DRAINING
POLL_S = 0.5
SETTLE_S = 0.5  # a hook that looked for the mark before it existed registers within this time


def begin(root: Path) -> None:
    """Have new slices refused. Raises CgpuError."""
    path = below(root, MARK)
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise CgpuError(f"{path}: cannot be made: {error.strerror}; run it as root") from error
    # A missing folder means that no engine runs that could reserve anything.
    with contextlib.suppress(OSError):
        below(root, paths.DRAINING_HERE).touch(mode=0o600)


def end(root: Path) -> bool:
    """Have slices given out again; return whether they were refused."""
    with contextlib.suppress(OSError):
        below(root, paths.DRAINING_HERE).unlink()
    try:
        below(root, MARK).unlink()
    except FileNotFoundError:
        return False
    return True


def clear(root: Path, say: Say) -> None:
    """Remove the mark that a killed command has left, and say so. Raises OSError."""
    if end(root):
        say(f"{MARK}: removed; new slices are allowed again")


@contextlib.contextmanager
def refusing(root: Path) -> Iterator[None]:
    """Refuse new slices inside the context. Raises CgpuError."""
    try:
        begin(root)
        yield
    finally:
        end(root)


def count(containers: int) -> str:
    """Return the number of sliced containers in words."""
    return f"{containers or 'no'} sliced container{'' if containers == 1 else 's'}"


def sliced(root: Path) -> list[str]:
    """Return the containers that the engine knows, and the shares that are reserved for later ones.

    None where no engine runs. Raises CgpuError.
    """
    found: set[str] = set()
    for path in possible_trees(root):
        tree = Tree(str(below(root, path)))
        try:
            # The daemon's folder exists without the daemon, too.
            if os.path.exists(f"{tree.path}/version"):
                for gpu in tree.gpus():
                    unused = [one for one in tree.reserved(gpu.index) if one.container is None]
                    found |= {*tree.containers(gpu.index), *(_words(root, one.share) for one in unused)}
        except EngineDownError:
            continue
    return sorted(found)


def _words(root: Path, share: str) -> str:
    """Return by which words a person finds what a share is reserved for."""
    try:
        namespace, name, _ = shares.read(share, str(below(root, paths.SHARES))).claim
    except (CgpuError, OSError):
        return f"{share} (reserved)"
    return f"claim {namespace}/{name} (reserved)"


def settled(root: Path) -> list[str]:
    """Return the same; none only after starts that were under way at begin() had time to register."""
    names = sliced(root)
    if not names:
        time.sleep(SETTLE_S)
        names = sliced(root)
    return names


def check_engine(root: Path, runner: Runner) -> None:
    """Raise CgpuError where the engine is down and its containers may run: they cannot be counted."""
    if any(os.path.exists(below(root, f"{path}/version")) for path in possible_trees(root)):
        return
    keeper = below(root, paths.KEEPER_SOCKET)
    if keeper.exists() and notify_socket.is_heard(keeper):
        raise CgpuError(
            "cgpud is down and its keeper may hold containers: start it with cgpud, or give them up with "
            "cgpud --stop --force"
        )
    if below(root, paths.SYSTEMD).is_dir():
        said = runner.run(
            ("systemctl", "show", "--property=NFileDescriptorStore", "--value", "cgpud.service")
        )
        if said.status == 0 and said.output.strip() not in ("", "0", "[not set]"):
            raise CgpuError(
                "cgpud is down and systemd may hold its containers: systemctl start cgpud, or give them up "
                "with systemctl clean --what=fdstore cgpud"
            )


def wait(root: Path, seconds: float, say: Say) -> None:
    """Wait until no sliced container is left. Raises CgpuError with their names when time is up."""
    deadline = time.monotonic() + seconds
    said: list[str] = []
    while True:
        names = settled(root)
        if not names:
            return
        if time.monotonic() > deadline:
            raise CgpuError(
                f"after {seconds:.0f} s these containers still have a slice: {', '.join(names)}; end them"
            )
        if names != said:
            say(f"waiting for these containers to end: {', '.join(names)}")
            said = names
        time.sleep(POLL_S)
