# SPDX-License-Identifier: Apache-2.0
"""
Files for users who are not root: root writes them anew every second, and the kernel guards them.

The tree stays root's. `show_slices` of the configuration says what is published: nothing; the cards, and to
each user the slices of the user's own containers; or everything. A file for one user can be read by that user
and root alone, so nothing depends on what the reading program does.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cgpu import paths
from cgpu.client.cards import Card, Container, Process, read_cards, with_utilisation
from cgpu.client.policies import Policy
from cgpu.client.scheduling import Scheduling
from cgpu.client.stat import GpuStat, SliceStat
from cgpu.client.tree import EngineDownError, Tree
from cgpu.config import effective
from cgpu.errors import CgpuError
from cgpu.files import read_bounded
from cgpu.replace import Meta, write
from cgpu.slice import Slice
from cgpu.smi.names import SHORT_WAIT_S, Directory
from cgpu.smi.node import engine_of
from cgpu.smi.owners import users

ROOT, OWN, ALL = "root", "own", "all"
FOLDER = Path(paths.PUBLISHED)
EVERYONE = "everyone.json"
SUFFIX = ".json"
# Counters of a card that users see who do not see all of its slices.
PUBLIC = ("uuid", "memtotal", "promised", "policy", "prio_ratio", "max_inst", "mig", "lost")
PERIOD_S = 1.0
OLD_S = 10.0  # a publisher that has ended takes its files along, unless it was killed
MAX_BYTES = 4 << 20
# Users read the files by their names.
FOLDER_MODE = 0o711
AGAIN = "starts what writes it again: cgpu doctor --fix"
NOTHING = (
    "show_slices is root, so nothing is published; to show slices to others: "
    "cgpu config set show_slices own --apply"
)
ASK = (
    "only root sees the slices of this node: sudo cgpu-smi; what others see is show_slices in " + paths.CONFIG
)


def publish(folder: Path = FOLDER, sleep: Callable[[float], None] = time.sleep) -> None:
    """Publish until interrupted, or until only root is to see slices.

    Raises CgpuError. However it ends, nothing stays published.
    """
    names = Directory(wait_s=SHORT_WAIT_S)
    before: tuple[Card, ...] = ()
    with _own(folder):
        while (config := effective.load()).show_slices != ROOT:
            tree = Tree(paths.tree(config.tree))
            after = _sampled(tree)
            shown = names.named(with_utilisation(before, after))
            _write_all(folder, files(shown, config.show_slices, engine_of(tree)))
            before = after
            sleep(PERIOD_S)


def _sampled(tree: Tree) -> tuple[Card, ...]:
    """Return the cards; none while there is no engine."""
    try:
        return read_cards(tree)
    except EngineDownError:
        return ()


def files(cards: tuple[Card, ...], shown: str, engine: str | None = None) -> dict[str, str]:
    """Return what is published, by the name of the file. A user's file has the user's number as its name."""
    if not cards or shown not in (OWN, ALL):
        return {}
    if shown == ALL:
        return {EVERYONE: _document(cards, engine)}
    by_group = users(frozenset(one.group for card in cards for one in card.containers if one.group))
    found = {EVERYONE: _document(tuple(_part(card, set()) for card in cards), engine)}
    for uid in sorted({uid for uids in by_group.values() for uid in uids} - {0}):
        theirs = {group for group, uids in by_group.items() if uid in uids}
        found[f"{uid}{SUFFIX}"] = _document(tuple(_part(card, theirs) for card in cards), engine)
    return found


def _part(card: Card, groups: set[str]) -> Card:
    """Return a card with the containers of some groups; limits stay those among all.

    Of its counters only those are left that tell nothing of other users' containers.
    """
    counters: dict[str, Any] = {
        name: getattr(card.stat, name) if name in PUBLIC else 0 for name in GpuStat.__slots__
    }
    return replace(
        card,
        stat=GpuStat(**{**counters, "refused": {}, "slices": ()}),
        containers=tuple(one for one in card.containers if one.group in groups),
        left=(),
        utilisation=None,
        partial=True,
    )


def _document(cards: tuple[Card, ...], engine: str | None) -> str:
    document = {"at": time.monotonic(), "engine": engine, "cards": [asdict(card) for card in cards]}
    return json.dumps(document, default=Slice.values) + "\n"


@contextmanager
def _own(folder: Path) -> Iterator[None]:
    """Have the folder; its files go at the end. Raises CgpuError."""
    if os.geteuid() != 0:
        raise CgpuError("only root publishes slices: sudo cgpu-smi --publish")
    try:
        folder.mkdir(exist_ok=True)
        folder.chmod(FOLDER_MODE)  # whatever the umask
    except OSError as error:
        raise CgpuError(f"{folder}: cannot be made ({error.strerror})") from error
    try:
        yield
    finally:
        _write_all(folder, {})


def _write_all(folder: Path, wanted: dict[str, str]) -> None:
    """Put the files in place, and take others away first. Raises CgpuError."""
    # Another publisher that somebody has started writes the same, by a temporary file of its own.
    new = folder / f".{os.getpid()}"
    try:
        _remove(folder, wanted)
        for name, text in wanted.items():
            uid = None if name == EVERYONE else int(name.removesuffix(SUFFIX))
            write(folder / name, text.encode(), _readable_by(uid), new=new)
    except OSError as error:
        with contextlib.suppress(OSError):
            _remove(folder, ())
        raise CgpuError(f"{folder}: cannot be written ({error.strerror})") from error


def _remove(folder: Path, kept: Collection[str]) -> None:
    for present in folder.glob(f"*{SUFFIX}"):
        if present.name not in kept:
            present.unlink(missing_ok=True)


def _readable_by(uid: int | None) -> Meta:
    """Return what makes a file of root's readable by one user besides, or by everyone.

    An access control list says it, in the form of linux/posix_acl_xattr.h: as the file's owner the user could
    fill the memory that it lies in.
    """
    if uid is None:
        return Meta(0o644, 0, 0)
    user_obj, user, group_obj, mask, other, nobody = 1, 2, 4, 16, 32, (1 << 32) - 1
    entries = (
        (user_obj, 6, nobody),
        (user, 4, uid),
        (group_obj, 0, nobody),
        (mask, 4, nobody),
        (other, 0, nobody),
    )
    packed = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    return Meta(0o640, 0, 0, (("system.posix_acl_access", struct.pack("<I", 2) + packed),))


def age(folder: Path = FOLDER) -> float | None:
    """Return how many seconds ago something was published last; None where nothing is that can be read."""
    try:
        document = json.loads(read_bounded(str(folder / EVERYONE), MAX_BYTES))
        return time.monotonic() - float(document["at"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def published(folder: Path = FOLDER) -> tuple[str | None, tuple[Card, ...]]:
    """Return the engine's name and version, and the cards that this user may see. Raises CgpuError."""
    for name in (f"{os.getuid()}{SUFFIX}", EVERYONE):
        path = folder / name
        try:
            document = json.loads(read_bounded(str(path), MAX_BYTES))
            cards, seconds = tuple(map(_card, document["cards"])), time.monotonic() - document["at"]
            engine = document["engine"]
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CgpuError(f"{path}: cannot be read ({error.strerror}); {ASK}") from error
        except (ValueError, KeyError, TypeError):
            raise CgpuError(f"{path}: written by another release; root {AGAIN}") from None
        if seconds > OLD_S:
            raise CgpuError(f"{path}: {seconds:.0f} s old; root {AGAIN}")
        return engine, cards
    raise CgpuError(ASK)


def _card(fields: dict[str, Any]) -> Card:
    made = {
        "stat": GpuStat(**{**fields["stat"], "slices": ()}),
        "containers": tuple(map(_container, fields["containers"])),
        "left": tuple((container, size) for container, size in fields["left"]),
        "scheduling": Scheduling(**fields["scheduling"]),
        "rule": None if fields["rule"] is None else Policy(**fields["rule"]),
    }
    return Card(**{**fields, **made})


def _container(fields: dict[str, Any]) -> Container:
    container, values, *figures = fields["stat"]
    processes = tuple(Process(**one) for one in fields["processes"])
    return Container(
        **{**fields, "stat": SliceStat(container, Slice(*values), *figures), "processes": processes}
    )
