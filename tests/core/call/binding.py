# SPDX-License-Identifier: Apache-2.0
"""The core through ctypes, with a driver of a few lines, for tests that compare it with a model."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cgpu.kmod.daemon.library import CContainer, CFacts, Node
from tests.structs import members

MIB: Final = 1 << 20
CARD_BYTES: Final = 15109 * MIB
COPY_IN, CONTINUE, EXECUTE, ANSWER, REFUSE, FIND_FILE = range(6)
NV_ESC_RM_FREE, NV_ESC_RM_CONTROL, NV_ESC_RM_ALLOC, NV_ESC_RM_DUP_OBJECT = 41, 42, 43, 52
EXPORT, IMPORT, EXPORTS, IMPORTS = 0x3D05, 0x3D06, 0x3D0B, 0x3D0C
OK, NOT_PERMITTED, NO_MEMORY, NOT_SUPPORTED = 0, 0x1B, 0x51, 0x56
DEVICE, MEMORY = 0x80, 0x40
OUTSIDE: Final = 0x7F0000000000  # an address in the caller; nobody follows it


class Segment(ctypes.Structure):
    _fields_ = members("u32 parent pointer bytes", "u64 address", "pointer data")


class Call(ctypes.Structure):
    _fields_ = (
        *members("u32 slot", "u64 generation", "int device", "u32 gpu", "s32 tgid", "u64 file"),
        *members("u32 nr bytes", "pointer top", "u32 finds_files segments"),
        ("segment", Segment * 3),
        *members("s32 descriptor", "u32 found", "u64 target", "s32 error", "u32 no_room client turn fetched"),
        ("opaque", ctypes.c_uint64 * 8),
    )


LOCK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
CGROUP = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t
)


class Ops(ctypes.Structure):
    _fields_ = (
        ("lock", LOCK),
        ("unlock", LOCK),
        ("log", LOG),
        ("cgroup_of", CGROUP),
        *members("pointer orphans process_of cards clock turn"),
    )


class Core(ctypes.Structure):
    _fields_ = members("pointer state ops ctx abi")


def load(path: Path) -> ctypes.CDLL:
    """Load the library and say what its functions return."""
    library = ctypes.CDLL(str(path))
    library.cgpu_state_bytes.restype = ctypes.c_size_t
    library.cgpu_abi_find.restype = ctypes.c_void_p
    library.cgpu_tree_read.restype = ctypes.c_long
    library.cgpu_gpu_orphaned.restype = ctypes.c_uint64
    return library


@dataclass
class Bench:
    """One core with two cards, and calls on it as a container makes them on driver 580.142."""

    library: ctypes.CDLL
    state: ctypes.Array[ctypes.c_char]
    keep: list[object] = field(default_factory=list)
    depth: int = 0
    target: int = 0  # the open file that a descriptor inside a call leads to
    core: Core = field(default_factory=Core)

    def start(self) -> None:
        """Make the state fresh and add the cards."""
        self.library.cgpu_state_init(self.state, ctypes.c_uint64(0x1F2E3D4C5B6A7988))
        ops = Ops(LOCK(self.on_lock), LOCK(self.on_unlock), LOG(lambda *_: None), CGROUP(self.on_cgroup))
        self.keep.append(ops)
        self.core.state = ctypes.addressof(self.state)
        self.core.ops = ctypes.addressof(ops)
        self.core.abi = self.library.cgpu_abi_find(b"580.142")
        for index in range(2):
            facts = CFacts(index, index, index, index, CARD_BYTES, b"GPU-%d" % index, b"model")
            assert self.ask("cgpu_gpu_add", ctypes.byref(facts)) == 0

    def ask(self, name: str, *arguments: object) -> int:
        """Call a function of the core on this state."""
        return int(getattr(self.library, name)(ctypes.byref(self.core), *arguments))

    def on_lock(self, _ctx: object) -> None:
        assert self.depth == 0
        self.depth = 1

    def on_unlock(self, _ctx: object) -> None:
        assert self.depth == 1
        self.depth = 0

    def drop_orphans(self) -> None:
        """The driver has dropped every client that a removed container left behind."""
        cursor, tgid, client = ctypes.c_uint32(), ctypes.c_int32(), ctypes.c_uint32()
        found = [ctypes.byref(one) for one in (cursor, tgid, client)]
        while self.ask("cgpu_orphan_next", *found) == 0:
            assert self.ask("cgpu_orphan_gone", tgid, client) == 0

    def orphaned(self, gpu: int) -> int:
        """Return the bytes that removed containers left behind on a GPU."""
        return self.ask("cgpu_gpu_orphaned", gpu)

    def on_cgroup(self, _ctx: object, pid: int, path: ctypes.Array[ctypes.c_char], _bytes: int) -> int:
        for at, byte in enumerate(b"/box/%d\0" % pid):
            path[at] = byte.to_bytes()
        return 0

    def control(self, line: str) -> int:
        """Write to inst_ctl; 0 or a negative errno."""
        text = line.encode()
        return self.ask("cgpu_inst_ctl", text, ctypes.c_size_t(len(text)))

    def find(self, container: str) -> CContainer:
        info = CContainer()
        assert self.ask("cgpu_container_find", container.encode(), ctypes.byref(info)) == 0
        return info

    def read(self, path: str) -> str:
        """Return a node's text; OSError as the tree would give it."""
        node, text = Node(), ctypes.create_string_buffer(65536)
        result = self.ask("cgpu_tree_lookup", path.encode(), ctypes.byref(node))
        if result == 0:
            size = ctypes.c_size_t(len(text))
            result = self.ask("cgpu_tree_read", ctypes.byref(node), text, size)
        if result < 0:
            raise OSError(-result, os.strerror(-result), path)
        return text.raw[:result].decode()

    def write(self, path: str, value: str) -> int:
        node, text = Node(), value.encode()
        result = self.ask("cgpu_tree_lookup", path.encode(), ctypes.byref(node))
        if result == 0:
            size = ctypes.c_size_t(len(text))
            result = self.ask("cgpu_tree_write", ctypes.byref(node), text, size)
        return result

    def call(self, who: CContainer, nr: int, top: bytearray, params: bytearray | None = None) -> int:
        """Run one call on a driver that always succeeds; return the status in the copy, or -errno."""
        raw = (ctypes.c_char * len(top)).from_buffer(top)
        top_at = ctypes.addressof(raw)
        call = Call(who.slot, who.generation, 0, 0, 100 + who.slot, 0, nr, len(top), top_at, 1)
        verdict = self.ask("cgpu_call_begin", ctypes.byref(call))
        if verdict == COPY_IN:
            assert params is not None
            assert call.segment[0].bytes == len(params)
            nested = (ctypes.c_char * len(params)).from_buffer(params)
            call.segment[0].data = ctypes.addressof(nested)
            verdict = self.ask("cgpu_call_begin", ctypes.byref(call))
        if verdict == FIND_FILE:
            call.target, call.found = self.target, 1
            verdict = self.ask("cgpu_call_begin", ctypes.byref(call))
        status = {NV_ESC_RM_FREE: 12, NV_ESC_RM_DUP_OBJECT: 24}.get(nr, 28)
        if verdict == EXECUTE:
            top[status : status + 4] = struct.pack("<I", OK)
            assert self.ask("cgpu_call_end", ctypes.byref(call), 0) == 0
        elif verdict == REFUSE:
            return -int(call.error)
        found: int = struct.unpack_from("<I", top, status)[0]
        return found

    def device(self, who: CContainer, client: int, handle: int, gpu: int) -> int:
        top = bytearray(struct.pack("<IIIIQII", client, client, handle, DEVICE, OUTSIDE, 56, 0xFFFF))
        return self.call(who, NV_ESC_RM_ALLOC, top, bytearray(struct.pack("<I52x", gpu)))

    def allocate(self, who: CContainer, client: int, parent: int, handle: int, size: int) -> int:
        """Ask for memory in 64 KiB pages."""
        params = bytearray(128)
        struct.pack_into("<I", params, 24, 2 << 23)
        struct.pack_into("<Q", params, 64, size)
        top = bytearray(struct.pack("<IIIIQII", client, parent, handle, MEMORY, OUTSIDE, 128, 0xFFFF))
        return self.call(who, NV_ESC_RM_ALLOC, top, params)

    def free(self, who: CContainer, client: int, handle: int) -> int:
        return self.call(who, NV_ESC_RM_FREE, bytearray(struct.pack("<IIII", client, 0, handle, 0xFFFF)))

    def rm_control(self, who: CContainer, client: int, command: int, params: bytearray) -> int:
        top = struct.pack("<IIIIQII", client, client, command, 0, OUTSIDE, len(params), 0xFFFF)
        return self.call(who, NV_ESC_RM_CONTROL, bytearray(top), params)

    def export(self, who: CContainer, client: int, handle: int, file: int) -> int:
        self.target = file
        params = struct.pack("<IIIIiI", 1, 0, 0, handle, 9, 0)
        return self.rm_control(who, client, EXPORT, bytearray(params))

    def export_list(self, who: CContainer, client: int, handles: list[int], place: tuple[int, int]) -> int:
        """Export several objects to a file, from a place on."""
        self.target, index = place
        params = bytearray(2128)
        struct.pack_into(f"<{len(handles)}I", params, 76, *handles)
        struct.pack_into("<HH", params, 2124, len(handles), index)
        return self.rm_control(who, client, EXPORTS, params)

    def import_(self, who: CContainer, to: tuple[int, int, int], file: int) -> int:
        self.target = file
        client, parent, handle = to
        params = struct.pack("<iIIII", 9, 1, 0, parent, handle)
        return self.rm_control(who, client, IMPORT, bytearray(params))

    def import_list(self, who: CContainer, to: tuple[int, int, list[int]], place: tuple[int, int]) -> int:
        """Import several objects from a file, from a place on."""
        self.target, index = place
        client, parent, handles = to
        params = bytearray(652)
        struct.pack_into(f"<iI{len(handles)}I", params, 0, 9, parent, *handles)
        struct.pack_into("<HH", params, 648, len(handles), index)
        return self.rm_control(who, client, IMPORTS, params)

    def close(self, file: int) -> None:
        """The last close of an open file is done."""
        self.ask("cgpu_file_closed", ctypes.c_uint64(file))

    def dup(self, who: CContainer, to: tuple[int, int, int], source: tuple[int, int]) -> int:
        top = bytearray(struct.pack("<IIIIIII", *to, *source, 0, 0xFFFF))
        return self.call(who, NV_ESC_RM_DUP_OBJECT, top)


def new_bench(library: ctypes.CDLL, state: ctypes.Array[ctypes.c_char]) -> Bench:
    """Return a started bench on a buffer that may have been used before."""
    bench = Bench(library, state)
    bench.start()
    return bench
