# SPDX-License-Identifier: Apache-2.0
"""The engine as Python sees it: libcgpud.so through ctypes. Its threads never call back into Python."""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import byref, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cgpu import __version__
from cgpu.errors import CgpuError
from cgpu.kmod.daemon.library import (
    COUNTS,
    TOTALS,
    CContainer,
    CDeviceNode,
    CFacts,
    COptions,
    CRefusal,
    CReservation,
    CSettings,
    CStatus,
    Node,
    load_library,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cgpu.config.effective import Effective

ERROR_BYTES = 512
NAME_BYTES = 256
NO_SLOT = 0xFFFFFFFF
TEXT_BYTES = 65536
Text = ctypes.c_char * TEXT_BYTES
MAX_GPUS = 32
NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card: index in the tree, minor of its node, memory in bytes."""

    index: int
    minor: int
    memtotal: int
    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A node of the driver. major and minor mean something only for a character device."""

    path: str
    character_device: bool
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Container:
    """A registered container."""

    id: str
    cgroup: str
    pid: int
    slot: int
    generation: int
    passthrough: int = 0  # bit n: it has GPU n whole

    @property
    def key(self) -> tuple[int, int]:
        """Slot and generation, which name this very registration."""
        return self.slot, self.generation


@dataclass(frozen=True, slots=True)
class Reservation:
    """Bytes that are promised to a share on one card, and whether a container uses them."""

    share: str
    gpu: int
    memsize: int
    used: bool


class Driver(NamedTuple):
    """The directory of a driver's nodes, and lines of versions outside of the table (cgpu.kmod.abi.rows)."""

    root: str
    rows: str = ""


class StaleStateError(CgpuError):
    """The state of an earlier engine has another layout or is damaged."""


def settings_of(config: Effective) -> CSettings:
    """Return the core's settings of a configuration."""
    return CSettings(
        engine=b"cgpud",
        version=__version__.encode(),
        enforce=config.enforce,
        allow_zero_weight=config.allow_zero_weight,
        policy=config.policy,
        max_inst=config.max_inst,
        prio_ratio=config.prio_ratio,
        default_memsize=config.default_memsize,
        context_memory=config.context_memory,
        drift_tolerance=config.drift_tolerance,
        drift_refuse=config.drift_reaction == "refuse",
        slice=config.slice_us * NS_PER_US,
    )


class RefusedWriteError(OSError):
    """A write that was refused. why: one line for the user; empty where no more than the errno is known."""

    def __init__(self, number: int, why: str) -> None:
        """Keep the errno and the line."""
        super().__init__(number, os.strerror(number))
        self.why = why


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _explained(function: Any, *arguments: Any) -> None:
    """Call a function that writes one line about its failure. Raises CgpuError with the line."""
    error = ctypes.create_string_buffer(ERROR_BYTES)
    result = function(*arguments, error, ERROR_BYTES)
    if result < 0:
        kind = StaleStateError if result == -errno.ESTALE else CgpuError
        raise kind(error.value.decode(errors="replace"))


class Engine:
    """One running engine. Any thread may call its methods until close() is called."""

    def __init__(
        self,
        driver: Driver,
        config: Effective,
        *,
        state_fd: int = -1,
        files_fd: int = -1,
        event_fd: int = -1,
        follows: bool = False,
    ) -> None:
        """Speak to the driver and find its GPUs. Raises CgpuError, StaleStateError for an unusable state.

        state_fd: -1 begins with an empty state. files_fd watched open files for the engine before, or is -1.
        event_fd: a pipe's write end. follows: the engine before ended a moment ago.
        """
        self._lib = load_library()
        self._handle = c_void_p()
        given = COptions(
            driver_root=driver.root.encode(),
            driver_rows=driver.rows.encode(),
            settings=settings_of(config),
            state_fd=state_fd,
            files_fd=files_fd,
            event_fd=event_fd,
            workers=config.workers,
            allow_unknown_driver=config.allow_unknown_driver,
            managed_memory=config.managed_memory,
            follows=follows,
        )
        _explained(self._lib.cgpud_open, byref(self._handle), byref(given))
        self._core = self._lib.cgpud_core(self._handle)

    @property
    def state_fd(self) -> int:
        """The memory file with all state; stays the engine's."""
        return int(self._lib.cgpud_state_fd(self._handle))

    @property
    def files_fd(self) -> int:
        """Descriptor that watches open files; negative: this kernel cannot do it. Stays the engine's."""
        return int(self._lib.cgpud_files_fd(self._handle))

    def pause(self, wait_ms: int) -> bool:
        """End the threads as calls end. True: nothing changes any more; False: resume, or go on with it."""
        return int(self._lib.cgpud_pause(self._handle, wait_ms)) == 0

    def resume(self) -> None:
        """Go on after a pause. Raises OSError."""
        _checked(self._lib.cgpud_resume(self._handle))

    def listener_fd(self, serial: int) -> int:
        """Return a listener's descriptor, which stays the engine's; -1 when it is gone. While it pauses."""
        return max(-1, int(self._lib.cgpud_listener_fd(self._handle, serial)))

    def attach(self, fd: int, slot: int, generation: int, serial: int, *, kept: bool = False) -> None:
        """Hand a seccomp listener over; fd is the engine's from here on. Raises OSError.

        kept: an engine before this one has served it, so it counts whatever its container has.
        """
        _checked(self._lib.cgpud_attach(self._handle, fd, slot, generation, serial, kept))

    def start(self) -> None:
        """Begin to answer calls. Raises CgpuError."""
        _explained(self._lib.cgpud_start, self._handle)

    def apply(self, config: Effective) -> None:
        """Change settings. Raises OSError."""
        _checked(self._lib.cgpud_apply(self._handle, byref(settings_of(config))))
        self._lib.cgpud_allow_managed(self._handle, config.managed_memory)

    def serves(self, serial: int) -> bool:
        """Tell whether a listener still has tasks, as far as that was seen."""
        return bool(self._lib.cgpud_serves(self._handle, serial))

    def is_filtered(self, pid: int, container: Container) -> bool:
        """Tell whether a container's process has filters that hold; else it is killed. Raises OSError."""
        return bool(_checked(self._lib.cgpud_filtered(self._handle, pid, *container.key)))

    def end_process(self, pid: int, container: Container) -> None:
        """Kill a container's process. Raises OSError."""
        _checked(self._lib.cgpud_end_process(pid, container.cgroup.encode()))

    def take_page(self, gpu: int) -> None:
        """Have this thread take a page of a card, and give it back. Raises OSError."""
        _checked(self._lib.cgpud_take_page(self._handle, gpu))

    def say_witness(self, word: str) -> None:
        """Say in the tree what has become of the witness of pages."""
        self._lib.cgpu_witness_set(self._core, word.encode())

    def kick(self) -> None:
        """Say that registrations may have changed."""
        self._lib.cgpud_kick(self._handle)

    def status(self) -> dict[str, str | int]:
        """Return the driver's version, driver_error(), and the counters since the start."""
        status = self._status()
        counted = {name: int(getattr(status, name)) for name in (*COUNTS, *TOTALS) if name != "spare"}
        return {"driver": status.driver.decode(), "layout": status.layout.decode(), **counted}

    def driver_error(self) -> int:
        """Return errno of the driver's last answer to the engine itself; 0 when it is well."""
        return int(self._status().driver_error)

    def lost_lines(self) -> int:
        """Return how many messages of the engine did not fit the pipe."""
        return int(self._status().lost_lines)

    def nodes(self) -> Iterator[DeviceNode]:
        """Give the driver's nodes: the control node first, then the GPUs in order, then others."""
        node = CDeviceNode()
        index = 0
        while self._lib.cgpud_node(self._handle, index, byref(node)) == 0:
            yield DeviceNode(node.path.decode(), bool(node.character_device), node.major, node.minor)
            index += 1

    def gpus(self) -> Iterator[Gpu]:
        """Give the cards in the order of the tree."""
        facts = CFacts()
        for index in range(MAX_GPUS):
            if self._lib.cgpu_gpu_facts(self._core, index, byref(facts)) == 0:
                yield Gpu(facts.index, facts.minor, facts.memtotal, facts.uuid.decode(), facts.name.decode())

    def find(self, container_id: str) -> Container | None:
        """Return the registration of a full container id."""
        info = CContainer()
        if self._lib.cgpu_container_find(self._core, container_id.encode(), byref(info)) < 0:
            return None
        return _container(info)

    def containers(self) -> Iterator[Container]:
        """Give all registrations."""
        info = CContainer()
        slot = 0
        while self._lib.cgpu_container_next(self._core, slot, byref(info)) == 0:
            yield _container(info)
            slot = info.slot + 1

    def reservations(self) -> Iterator[Reservation]:
        """Give all reservations."""
        info = CReservation()
        cursor = ctypes.c_uint32()
        while self._lib.cgpu_reservation_next(self._core, byref(cursor), byref(info)) == 0:
            yield Reservation(info.id.decode(), info.gpu, info.memsize, info.slot != NO_SLOT)

    def is_in_use(self) -> bool:
        """Tell whether anything is promised: to a container, or to a share."""
        return any(True for _ in self.containers()) or any(True for _ in self.reservations())

    def remove(self, container: Container) -> None:
        """Remove this very registration and its charges."""
        self._lib.cgpu_container_remove(self._core, container.slot, container.generation)

    def lookup(self, path: str) -> Node:
        """Find a node of the tree. Raises OSError."""
        node = Node()
        _checked(self._lib.cgpu_tree_lookup(self._core, path.encode("utf-8", "surrogateescape"), byref(node)))
        return node

    def names(self, directory: Node) -> Iterator[str]:
        """Give the names in a directory."""
        name = ctypes.create_string_buffer(NAME_BYTES)
        index = 0
        while self._lib.cgpu_tree_name(self._core, byref(directory), index, name, NAME_BYTES) == 0:
            yield name.value.decode()
            index += 1

    def read(self, node: Node) -> bytes:
        """Return a node's whole text. Raises OSError: EBADF for inst_ctl, ENOENT when it is gone."""
        text = Text()
        length = _checked(self._lib.cgpud_tree_read(self._handle, byref(node), text, TEXT_BYTES))
        return ctypes.string_at(text, length)

    def write(self, node: Node, text: bytes) -> None:
        """Make one write, whole. Raises RefusedWriteError."""
        refusal = CRefusal()
        result = self._lib.cgpu_tree_write(self._core, byref(node), text, len(text), byref(refusal))
        if result < 0:
            raise RefusedWriteError(-result, refusal.text.decode(errors="replace"))

    def close(self) -> bool:
        """Stop and give everything back. The state lives on in copies of its descriptor.

        False: containers keep threads from ending; the process has to end as it is.
        """
        ended = self._handle.value is None or self._lib.cgpud_close(self._handle) == 0
        self._handle = c_void_p()
        return ended

    def _status(self) -> CStatus:
        status = CStatus()
        self._lib.cgpud_status(self._handle, byref(status))
        return status


def can_take_up(state_fd: int) -> bool:
    """Tell whether this version can read a state's layout, in use or not."""
    return int(load_library().cgpud_state_check(state_fd)) == 0


def _container(info: CContainer) -> Container:
    names = (info.id.decode(), info.cgroup.decode())
    return Container(*names, info.pid, info.slot, info.generation, info.passthrough)
