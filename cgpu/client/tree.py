# SPDX-License-Identifier: Apache-2.0
"""Client of the engine's tree: plain files, the same for the kernel module and the daemon.

Imported once per container: it takes nothing from the standard library but os and errno.
"""

from __future__ import annotations

import errno
import os

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.slice import ATTRIBUTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cgpu.client.policies import Policy
    from cgpu.client.reservations import Reservation
    from cgpu.client.stat import GpuStat
    from cgpu.config.effective import Effective
    from cgpu.request.grants import Grant

PARTLY = errno.EMSGSIZE
MAX_NODE = 1 << 16
MAX_CONTROL = 4096
PID_ROOM = len(" pid=4194304")
MAX_REASON = 512
MAX_ID = 127
ID_EXTRA = "_.+-"
_FACTS = ("drift", "left", "memfree", "memtotal", "mig", "minor", "name", "natives", "uuid")
GPU_NODES = (*_FACTS, "free_weight", "major", "max_inst", "policy", "prio_ratio", "reserved", "sched", "stat")
CONTAINER_NODES = (*(one.name for one in ATTRIBUTES), "id", "meminfo", "owner", "stat", "usage")
DAEMON = "cgpud"
MODULE = "cgpu_km"
RESTART_S = 5
DOWN = (errno.ENOENT, errno.ENOTCONN, errno.ENOTDIR, errno.ENODEV, errno.ECONNABORTED)


class EngineDownError(CgpuError):
    """There is no engine behind the tree."""


class Gpu:
    """Facts of one card. memtotal is in bytes; the name is read when it is asked for."""

    __slots__ = ("_read", "index", "max_inst", "memtotal", "uuid")

    def __init__(
        self, index: int, uuid: str, memtotal: int, max_inst: int, read: Callable[[str], str] | None = None
    ) -> None:
        """Keep the facts. read gives the text of a node of this GPU."""
        self.index = index
        self.uuid = uuid
        self.memtotal = memtotal
        self.max_inst = max_inst
        self._read = read

    @property
    def name(self) -> str:
        """The model, such as "Tesla T4"; empty when there is no tree behind. Raises CgpuError."""
        return self._read("name") if self._read is not None else ""

    @property
    def minor(self) -> int:
        """The minor number of its node; the index when there is no tree behind. Raises CgpuError."""
        return int(self._read("minor")) if self._read is not None else self.index


class Tree:
    """The tree at one path. Every method raises CgpuError, EngineDownError when nothing is there."""

    __slots__ = ("_kind", "path")

    def __init__(self, path: str) -> None:
        """Remember the path. Nothing is opened yet."""
        self.path = path
        self._kind = ""

    def names(self, *parts: str) -> list[str]:
        """Return the sorted names in a directory."""
        try:
            return sorted(os.listdir(self._join(parts)))
        except OSError as error:
            raise self.failed(error, "listed", *parts) from error

    def read(self, *parts: str) -> str:
        """Return the text of a node without the newline at its end."""
        fd = self.open(*parts)
        try:
            return read_text(fd)
        except OSError as error:
            raise self.failed(error, "read", *parts) from error
        finally:
            os.close(fd)

    def open(self, *parts: str) -> int:
        """Return a descriptor of a node, or of a directory, to read it."""
        try:
            return os.open(self._join(parts), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self.failed(error, "read", *parts) from error

    def read_int(self, *parts: str) -> int:
        """Return the number in a node."""
        text = self.read(*parts)
        if is_whole(text):
            return int(text)
        raise CgpuError(
            f"{self._join(parts)}: {show(text)}: a whole number was expected; see the engine's log"
        )

    def write(self, text: str, *parts: str) -> None:
        """Write a node's whole text at once."""
        try:
            self._write(self._join(parts), text)
        except OSError as error:
            raise self.failed(error, f"written ({show(text)})", *parts) from error

    def gpus(self) -> list[Gpu]:
        """Return the cards in the order of their indexes."""
        text = self.read("gpus")
        return [self._gpu(line) for line in text.split("\n")] if text else []

    def indexes(self) -> list[int]:
        """Return the indexes of the cards, in order, by the directories that there are."""
        return sorted(int(name) for name in self.names() if is_index(name))

    def kind(self) -> str:
        """Return which engine is behind the tree, DAEMON or MODULE, which is asked once.

        One that is not known is refused: it may need more than is prepared for these two.
        """
        if not self._kind:
            engine = self.read("engine").partition(" ")[0]
            if engine not in (DAEMON, MODULE):
                raise CgpuError(f"{self.path}/engine: {show(engine)}: expected {DAEMON} or {MODULE}")
            self._kind = engine
        return self._kind

    def containers(self, gpu: int) -> list[str]:
        """Return the names of the container directories of one GPU."""
        return [name for name in self.names(str(gpu)) if name not in GPU_NODES]

    def await_restart(self, timeout_s: float) -> None:
        """Wait for a daemon that is being started, such as one that has died.

        At most RESTART_S, and half of timeout_s, after which the runtime ends its hook without a word. An
        engine that has said its kind was there a moment ago.
        """
        if self._kind or self.is_up() or not (self._is_abandoned() or _is_daemon_alive()):
            return
        import time

        until = time.monotonic() + min(RESTART_S, timeout_s / 2)
        while not self.is_up() and time.monotonic() < until:
            time.sleep(0.02)

    def refresh(self, config: Effective) -> Effective:
        """Return the configuration with the tree's default_memsize; as it is where there is no tree."""
        try:
            return config.replace(default_memsize=self.read_int("default_memsize"))
        except EngineDownError:
            return config

    def register(
        self,
        container: str,
        pid: int,
        grants: Sequence[Grant],
        passthrough: Sequence[int] = (),
        shares: Sequence[str] = (),
    ) -> None:
        """Register a container on all GPUs of its grants, or on none. pid is its init process.

        passthrough: GPUs that it has whole besides. shares: in place of both, what was reserved for them.

        The message of the CgpuError says why the engine refuses, such as what a GPU has left.
        """
        line = f"{create_line(container, grants, passthrough, shares)} pid={pid}"
        _check_drained(f"container {container}")
        try:
            self._write_control(line)
        except OSError as error:
            if error.errno in (errno.EIO, PARTLY):
                # The engine may have registered a part; destroy it.
                self._forget(container)
            raise self._refusal(f"container {container}", error) from error

    def reserve(self, share: str, grant: Grant) -> None:
        """Promise memory, weight and a place of one GPU to a share, until it is released.

        Nothing happens where the same is reserved already. The message of the CgpuError says why the engine
        refuses.
        """
        check_share(share)
        _check_drained(f"share {share}")
        try:
            self._write_control(f"reserve id={share} {_gpu_word(grant)}")
        except OSError as error:
            raise self._refusal(f"share {share}", error) from error

    def release(self, share: str) -> None:
        """End a reservation; nothing happens when there is none. CgpuError: a container uses it."""
        check_share(share)
        try:
            self._write_control(f"release id={share}")
        except OSError as error:
            raise self._refusal(f"share {share}", error) from error

    def reserved(self, gpu: int) -> tuple[Reservation, ...]:
        """Return the reservations of a GPU."""
        from cgpu.client.reservations import parse

        return parse(self.read(str(gpu), "reserved"))

    def policies(self) -> Mapping[int, Policy]:
        """Return the scheduling policies by their numbers."""
        from cgpu.client.policies import parse

        return parse(self.read("policies"))

    def gpu_stat(self, gpu: int) -> GpuStat:
        """Return the figures of a GPU and its slices, in one read."""
        from cgpu.client.stat import parse_gpu

        return parse_gpu(self.read(str(gpu), "stat"))

    def destroy(self, container: str) -> None:
        """Remove a container's registration; nothing happens when there is none."""
        line = destroy_line(container)
        try:
            self._write(self._join(("inst_ctl",)), line)
        except OSError as error:
            if error.errno in DOWN and not self.is_up():
                raise self._down() from error
            raise CgpuError(f"container {container}: its slice was not removed ({error.strerror})") from error

    def _forget(self, container: str) -> None:
        try:
            self.destroy(container)
        except CgpuError:
            return

    def _gpu(self, line: str) -> Gpu:
        """Return what a line of the entry gpus says of a card."""
        words = dict(word.partition("=")[::2] for word in line.split(" "))
        index, uuid, memtotal, max_inst = (
            words.get(key, "") for key in ("index", "uuid", "memtotal", "max_inst")
        )
        if not (is_index(index) and uuid and is_whole(memtotal) and is_whole(max_inst)):
            raise CgpuError(
                f"{self.path}/gpus: {show(line)}: index, uuid, memtotal and max_inst "
                "were expected; see the engine's log"
            )
        number = int(index)
        return Gpu(number, uuid, int(memtotal), int(max_inst), read=lambda node: self.read(str(number), node))

    def _join(self, parts: Sequence[str]) -> str:
        return "/".join((self.path, *parts))

    def _write(self, path: str, text: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _write_whole(fd, text)
        finally:
            os.close(fd)

    def _write_control(self, line: str) -> None:
        """Write a line to inst_ctl. Raises OSError; its strerror says why the engine refuses the line."""
        fd = -1
        try:
            fd = os.open(self._join(("inst_ctl",)), os.O_RDWR | os.O_CLOEXEC)
            _write_whole(fd, line)
        except OSError as error:
            why = _read_reason(fd) or f"the engine at {self.path} refused: {error.strerror}"
            raise OSError(error.errno, why) from error
        finally:
            if fd >= 0:
                os.close(fd)

    def is_up(self) -> bool:
        """Return whether an engine is behind the tree."""
        return os.path.exists(self.path + "/version")

    def _is_abandoned(self) -> bool:
        """Say whether there is a mount without a server, as a killed daemon leaves it."""
        try:
            # Below the root: of that one the kernel may still have the attributes.
            os.stat(self.path + "/version")
        except OSError as error:
            return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
        return False

    def _down(self) -> EngineDownError:
        from cgpu.config import refused

        start = paths.start_command(self.path)
        # A path other than the usual places is named: of those only one can have a tree.
        where = "" if self.path in paths.TREES else f" at {self.path}"
        why = refused.why()
        cure = (
            f"it refuses its configuration: {why}; correct that, then: {start}"
            if why
            else f"start it: {start}"
        )
        return EngineDownError(
            f"the engine{where} is not running, so containers with a GPU slice cannot start; {cure}"
        )

    def _refusal(self, subject: str, error: OSError) -> CgpuError:
        """Return what to raise where inst_ctl was not written. subject: a container or share."""
        if error.errno in DOWN and not self.is_up():
            return self._down()
        if error.errno in (errno.EACCES, errno.EPERM):
            return CgpuError(f"{subject}: only root of the host may register containers")
        return CgpuError(f"{subject}: {error.strerror}")

    def failed(self, error: OSError, action: str, *parts: str) -> CgpuError:
        """Return what to raise where something could not be done with a node."""
        if error.errno in DOWN and not self.is_up():
            return self._down()
        return CgpuError(f"{self._join(parts)}: cannot be {action}: {error.strerror}")


def _gpu_word(grant: Grant) -> str:
    return f"gpu={':'.join(map(str, grant))}"


def create_line(
    container: str, grants: Sequence[Grant], passthrough: Sequence[int], shares: Sequence[str]
) -> str:
    """Return the line that registers a container, but for its pid, which comes last.

    Raises CgpuError for an id that cannot be registered, and for a line that is too long.
    """
    check_id(container)
    for share in shares:
        check_share(share)
    words = [_gpu_word(grant) for grant in grants]
    words += [f"native={gpu}" for gpu in passthrough]
    words += [f"share={share}" for share in shares]
    line = f"create id={container} {' '.join(words)}"
    if len(line) > MAX_CONTROL - PID_ROOM:
        raise CgpuError(f"container {container}: its request takes {len(line)} bytes, expected at most 4096")
    return line


def destroy_line(container: str) -> str:
    """Return the line that removes a container. Raises CgpuError for an id that no container can have."""
    check_id(container)
    return f"destroy id={container}"


def _write_whole(fd: int, text: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    if os.write(fd, raw) != len(raw):
        raise OSError(PARTLY, "only a part was taken")


def _read_reason(fd: int) -> str:
    """Return why the engine refused the last write to an open node; nothing where it does not say."""
    try:
        return os.pread(fd, MAX_REASON, 0).decode("ascii", "replace").partition("\n")[0]
    except OSError:
        return ""


def read_text(fd: int) -> str:
    """Return the present text of an open node without the newline at its end. Raises OSError.

    A read from the start takes the text anew, and fewer bytes than were asked for are all of it.
    """
    raw = os.pread(fd, MAX_NODE + 1, 0)
    if len(raw) > MAX_NODE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return raw.decode("utf-8", "replace").removesuffix("\n")


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number as the tree has them."""
    return len(text) <= 20 and text.isascii() and text.isdigit()


def is_index(name: str) -> bool:
    """Return whether a name of the tree's root is that of a GPU."""
    return len(name) <= 4 and name.isascii() and name.isdigit()


def _is_daemon_alive() -> bool:
    """Say whether the holder of the daemon's lock lives: the daemon, or its keeper, which starts it anew."""
    from cgpu import process_identity

    try:
        fd = os.open(paths.LOCK, os.O_RDONLY | os.O_CLOEXEC)
        try:
            holder = process_identity.parse(os.read(fd, process_identity.MAX_BYTES))
        finally:
            os.close(fd)
    except OSError:
        return False
    # The file stays behind, and the kernel gives the number out again.
    return holder.is_meant()


def _check_drained(what: str) -> None:
    if os.path.exists(paths.DRAINING):
        raise CgpuError(
            f"{what}: no slices are given out while OpenCGPU is removed from this node or "
            "upgraded; if nobody does that: cgpu doctor --fix"
        )


def check_share(share: str) -> None:
    """Raise CgpuError for an id that no share can have."""
    if not _is_plain(share):
        raise CgpuError(f"share id {show(share)}: expected 1 to {MAX_ID} letters, digits and _ . + -")


def _is_plain(name: str) -> bool:
    return (
        1 <= len(name) <= MAX_ID
        and name.isascii()
        and name not in (".", "..")
        and name[0] != "-"
        and all(c.isalnum() or c in ID_EXTRA for c in name)
    )


def check_id(container: str) -> None:
    """Raise CgpuError for an id that no container can have."""
    if not _is_plain(container):
        raise CgpuError(f"container id {show(container)}: expected 1 to {MAX_ID} letters, digits and _ . + -")
