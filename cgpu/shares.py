# SPDX-License-Identifier: Apache-2.0
"""The files of shares: a pod's parts of GPUs, as the node's agent has prepared them.

A container names a share by a variable, which anybody can write. These files alone, below /run and root's,
say what it may have: which GPU, how much of it, and which containers of which pods.
"""

from __future__ import annotations

import errno
import os

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.fastjson import UniqueContext, loads
from cgpu.files import open_nofollow, read_fd
from cgpu.request.grants import is_share
from cgpu.slice import ATTRIBUTES, Slice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from cgpu.slice import Attribute

    # namespace, name and UID
    Claim = tuple[str, str, str]

VERSION = 1
SUFFIX = ".json"
MAX_BYTES = 1 << 16
MAX_TEXT = 253  # as long as names of Kubernetes can be
PLAIN = str.maketrans("-._", "000")
CLAIM_KEYS = ("namespace", "name", "uid")
UUID = "GPU-"
FILE_TYPE, REGULAR = 0o170000, 0o100000
OTHERS_WRITE = 0o022


class MissingShareError(CgpuError):
    """There is no such share on this node."""


class Share:
    """A share of one GPU. Treat it as read-only.

    claim: namespace, name and UID. gpu: its UUID. pods: by UID, the names of the containers that may have it.
    """

    __slots__ = ("claim", "gpu", "pods", "share", "slice")

    def __init__(
        self,
        share: str,
        claim: Claim,
        gpu: str,
        slice_: Slice,
        pods: Mapping[str, Sequence[str]],
    ) -> None:
        self.share = share
        self.claim = claim
        self.gpu = gpu
        self.slice = slice_
        self.pods = pods

    def to_dict(self) -> dict[str, object]:
        """Return the document of the file."""
        return {
            "version": VERSION,
            "share": self.share,
            "claim": dict(zip(CLAIM_KEYS, self.claim, strict=True)),
            "gpu": self.gpu,
            **{one.name: getattr(self.slice, one.name) for one in ATTRIBUTES},
            "pods": {pod: list(containers) for pod, containers in self.pods.items()},
        }


def read(share: str, folder: str = paths.SHARES) -> Share:
    """Read the file of a share. Raises CgpuError; MissingShareError where there is none."""
    try:
        document = read_document(share, folder)
    except FileNotFoundError as error:
        raise MissingShareError(
            f"share {share}: it is not on this node, or its claim has ended ({_path(share, folder)}: "
            f"{error.strerror})"
        ) from error
    return parse(document, share, _path(share, folder))


def read_document(name: str, folder: str) -> object:
    """Read a JSON file that root alone can have written. Raises CgpuError, FileNotFoundError.

    name: its name without the end: a share's id, or a pod's UID, which has the same form.
    """
    path = _path(name, folder)
    try:
        raw = _read(name, folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CgpuError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return loads(raw, UniqueContext)
    except ValueError as error:
        raise CgpuError(f"{path}: is not JSON ({error}); expected the file of a share") from error


def write(share: Share, folder: str = paths.SHARES) -> None:
    """Put the file of a share in place, all at once and for good. Raises CgpuError."""
    document = share.to_dict()
    parse(document, share.share, _path(share.share, folder))
    write_document(share.share, document, folder)


def write_document(name: str, document: object, folder: str) -> None:
    """Put a JSON file in place that read_document() can read. Raises CgpuError."""
    import json
    from pathlib import Path

    from cgpu.replace import Meta
    from cgpu.replace import write as put

    path = _path(name, folder)
    raw = json.dumps(document).encode()
    if len(raw) > MAX_BYTES:
        raise CgpuError(f"{path}: {len(raw)} bytes; expected at most {MAX_BYTES}")
    try:
        if not os.path.isdir(folder):
            os.mkdir(folder, mode=0o700)
        put(Path(path), raw, Meta(0o600, 0, 0))
    except OSError as error:
        raise CgpuError(f"{path}: cannot be written ({error.strerror})") from error


def remove(share: str, folder: str = paths.SHARES) -> None:
    """Remove the file of a share; nothing happens where there is none. Raises CgpuError."""
    from pathlib import Path

    from cgpu.replace import remove as take

    path = _path(share, folder)
    try:
        if os.path.isdir(folder):
            take(Path(path))
    except OSError as error:
        raise CgpuError(f"{path}: cannot be removed ({error.strerror})") from error


def listed(folder: str = paths.SHARES) -> tuple[str, ...]:
    """Return the ids of all shares that have a file, also a malformed one. Raises CgpuError."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CgpuError(f"{folder}: cannot be listed ({error.strerror})") from error
    ids = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return tuple(sorted(filter(is_share, ids)))


def parse(document: object, share: str, path: str) -> Share:
    """Return the share of a document that was read from a path. Raises CgpuError for anything else."""
    version = document.get("version") if isinstance(document, dict) else document
    if type(version) is not int or version != VERSION:
        raise CgpuError(
            f"{path}: version: {show(version)}: expected {VERSION}; a newer node agent has written it where "
            "OpenCGPU on this node is older: cgpu upgrade"
        )
    try:
        found = _share(document, share)
    except ValueError as error:
        raise CgpuError(f"{path}: {error}") from error
    except (AttributeError, KeyError, TypeError):
        found = None
    if found is None or found.to_dict() != document:
        raise CgpuError(f"{path}: has more or less in it than the file of share {share}")
    return found


def _share(document: Any, share: str) -> Share:
    """Return the share of a document. Raises ValueError for a wrong value, others for another form."""
    gpu = document["gpu"]
    if not is_uuid(gpu):
        raise ValueError(f"gpu: {show(gpu)}: expected the UUID of a GPU")
    namespace, name, uid = (_name(document["claim"][key]) for key in CLAIM_KEYS)
    pods = {_name(pod): tuple(map(_name, names)) for pod, names in document["pods"].items()}
    values = (_number(document[one.name], one) for one in ATTRIBUTES)
    return Share(share, (namespace, name, uid), gpu, Slice(*values), pods)


def is_uuid(text: str) -> bool:
    """Return whether a text has the form of a GPU's UUID."""
    rest = text.removeprefix(UUID)
    return rest != text and len(rest) <= 64 and rest.isascii() and rest.replace("-", "0").isalnum()


def _path(share: str, folder: str) -> str:
    if not is_share(share):
        raise CgpuError(f"share {show(share)}: expected a UUID in small letters")
    return f"{folder}/{share}{SUFFIX}"


def _read(share: str, folder: str) -> bytes:
    """Read a file that root alone can have written. Raises OSError, and CgpuError for another one."""
    place = open_nofollow(folder)
    try:
        _check_owner(os.fstat(place), folder)
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(share + SUFFIX, flags, dir_fd=place)
    finally:
        os.close(place)
    path = _path(share, folder)
    try:
        status = os.fstat(fd)
        if status.st_mode & FILE_TYPE != REGULAR:
            raise CgpuError(f"{path}: expected a plain file")
        _check_owner(status, path)
        return read_fd(fd, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CgpuError(f"{path}: too large; expected at most {MAX_BYTES} bytes") from error
        raise
    finally:
        os.close(fd)


def _check_owner(status: os.stat_result, path: str) -> None:
    if status.st_uid != 0:
        raise CgpuError(f"{path}: belongs to user {status.st_uid}; expected root's")
    if status.st_mode & OTHERS_WRITE:
        mode = status.st_mode & 0o7777
        raise CgpuError(f"{path}: mode {mode:04o} lets others write; expected root alone")


def _name(value: str) -> str:
    """Return a name or UID of Kubernetes: letters, digits and - . _ alone."""
    if 0 < len(value) <= MAX_TEXT and value.isascii() and value.translate(PLAIN).isalnum():
        return value
    raise ValueError(f"{show(value)}: expected a name of Kubernetes")


def _number(value: object, of: Attribute) -> int:
    least = int(of.default is None)
    if type(value) is int and least <= value <= of.most:
        return value
    raise ValueError(f"{of.name}: {show(value)}: expected a whole number from {least} to {of.most}")
