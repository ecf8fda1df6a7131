# SPDX-License-Identifier: Apache-2.0
"""Claims that are prepared on this node, and pods for which another scheduler decides.

A record is written before anything else is done for a claim or such a pod.

Records lie in the plugin's own folder of the kubelet, which outlives a start of the machine; files for the
runtime and container engines lie below /run and are made anew from them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded
from cgpu.kubernetes.node.allocation import AllocatedShare
from cgpu.kubernetes.node.units import Unit
from cgpu.replace import Meta, remove, tidy_folder, write
from cgpu.request.grants import is_share
from cgpu.slice import ATTRIBUTES

Kind = Literal["claim", "pod"]
VERSION = 1
MAX_BYTES = 1 << 18
SUFFIX = ".json"
# Less than the kubelet waits for an answer (45 s), so that its pods' events say why.
LOCK_S = 30.0
LOCK_STEP_S = 0.02
_TEXTS = [one.name for one in fields(AllocatedShare) if one.type == "str"]


@dataclass(frozen=True, slots=True)
class ClaimName:
    """A claim, or a pod in its place, by all that tells it from others."""

    namespace: str
    name: str
    uid: str
    kind: Kind = "claim"

    def __str__(self) -> str:
        """Return it as messages name it."""
        return f"{self.kind} {show(self.namespace)}/{show(self.name)}"


@dataclass(frozen=True, slots=True)
class Record:
    """A prepared claim.

    pods: by the UID of each pod, and by request, the containers that may use it. unit: of its amounts.
    names: of the pods, by UID. isolated: always so of a record that is kept.
    """

    claim: ClaimName
    shares: tuple[AllocatedShare, ...]
    pods: dict[str, dict[str, tuple[str, ...]]]
    unit: Unit
    names: dict[str, str] = field(default_factory=dict)
    isolated: bool = True


class Records:
    """The records in a folder. Raises CgpuError for one that cannot be read, OSError for the disk."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made if it is not there."""
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self, wait_s: float = LOCK_S) -> Iterator[None]:
        """Keep other processes away from the records. Raises OSError; CgpuError when one keeps them."""
        path = self._folder / "lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            end = time.monotonic() + wait_s
            while not _try_lock(fd):
                if time.monotonic() >= end:
                    raise CgpuError(
                        f"{path}: another agent of this node has kept it for {wait_s:g} s; expected one "
                        "that answers; who it is: lslocks"
                    )
                time.sleep(LOCK_STEP_S)
            yield
        finally:
            os.close(fd)

    def unit(self, wanted: Unit) -> Unit:
        """Return the unit of the claims that are prepared, the wanted one where none has another."""
        claims = (record for record in self.all()[0] if record.claim.kind == "claim")
        return next((record.unit for record in claims if record.unit != wanted), wanted)

    def all(self) -> tuple[list[Record], list[str]]:
        """Return every record that can be read, and a line for each that cannot."""
        records, faults = [], []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            try:
                found = self._read(path)
            except CgpuError as error:
                faults.append(str(error))
            else:
                records += [found] if found is not None else []
        return records, faults

    def find(self, uid: str) -> Record | None:
        """Return the record of a claim."""
        return self._read(self._path(uid))

    def write(self, record: Record) -> None:
        """Keep a record, also through a power cut. Raises CgpuError for one that is too large to read."""
        path = self._path(record.claim.uid)
        text = json.dumps({"version": VERSION, **asdict(record)}, indent=1) + "\n"
        if len(text) > MAX_BYTES:
            raise CgpuError(
                f"{path}: {len(text)} bytes; expected at most {MAX_BYTES}: fewer pods or containers"
            )
        write(path, text.encode(), Meta(0o600, 0, 0))

    def remove(self, uid: str) -> None:
        """Forget a claim."""
        remove(self._path(uid))

    def tidy(self) -> None:
        """Remove what killed writes have left. Raises OSError."""
        tidy_folder(self._folder)

    def _path(self, uid: str) -> Path:
        if not is_share(uid):  # UIDs of objects have the same form
            raise CgpuError(f"UID of a claim: {show(uid)}: expected a UUID in lower case")
        return self._folder / f"{uid}{SUFFIX}"

    def _read(self, path: Path) -> Record | None:
        try:
            raw = read_bounded(str(path), MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CgpuError(f"{path}: cannot be read ({error.strerror}); {_cure(path)}") from error
        try:
            return parse(json.loads(raw))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CgpuError(
                f"{path}: no record of this version of OpenCGPU ({error}); {_cure(path)}"
            ) from error


def _cure(path: Path) -> str:
    """Return the cure: without the file the claim is given back, and its shares are removed."""
    return f"when the pods of its claim have no container left: rm {path}"


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def parse(document: Any) -> Record:
    """Read a record. Raises ValueError, KeyError, TypeError or AttributeError when it is none."""
    if document["version"] != VERSION:
        raise ValueError(f"version {show(document['version'])}, expected {VERSION}")
    claim = ClaimName(**document["claim"])
    is_text = all(type(one) is str for one in astuple(claim))
    if not is_text or not is_share(claim.uid) or claim.kind not in get_args(Kind):
        raise ValueError(f"claim {show(claim.uid)}")
    shares = tuple(AllocatedShare(**{**one, "slice": tuple(one["slice"])}) for one in document["shares"])
    for share in shares:
        numbers = len(share.slice) == len(ATTRIBUTES) and all(type(value) is int for value in share.slice)
        if not numbers or any(type(getattr(share, name)) is not str for name in _TEXTS):
            raise ValueError(f"share {show(share.share)}")
    pods = {
        str(uid): {str(request): tuple(map(str, names)) for request, names in requests.items()}
        for uid, requests in document["pods"].items()
    }
    unit = document["unit"]
    if unit not in get_args(Unit):
        raise ValueError(f"unit {show(unit)}")
    names = {str(uid): str(name) for uid, name in document["names"].items()}
    return Record(claim, shares, pods, unit, names)
