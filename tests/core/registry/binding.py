# SPDX-License-Identifier: Apache-2.0
"""The core's registry and tree through ctypes, for tests that compare it with a model."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cgpu.kmod.daemon.library import CFacts, Node
from tests.structs import members

CARD_BYTES: Final = 15109 << 20

LOCK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
CGROUP = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t
)


class Ops(ctypes.Structure):
    """struct cgpu_ops. Optional members follow the cgroup, and are left out."""

    _fields_ = (
        ("lock", LOCK),
        ("unlock", LOCK),
        ("log", LOG),
        ("cgroup_of", CGROUP),
        ("optional", ctypes.c_void_p * 16),
    )


class Core(ctypes.Structure):
    _fields_ = members("pointer state ops ctx abi")


def load(path: Path) -> ctypes.CDLL:
    """Load the library and say what its functions return."""
    library = ctypes.CDLL(str(path))
    library.cgpu_state_bytes.restype = ctypes.c_size_t
    library.cgpu_abi_find.restype = ctypes.c_void_p
    library.cgpu_tree_read.restype = ctypes.c_long
    return library


@dataclass
class Bench:
    """One core with two cards."""

    library: ctypes.CDLL
    state: ctypes.Array[ctypes.c_char]
    keep: list[object] = field(default_factory=list)
    depth: int = 0
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

    def on_cgroup(self, _ctx: object, pid: int, path: ctypes.Array[ctypes.c_char], _bytes: int) -> int:
        for at, byte in enumerate(b"/box/%d\0" % pid):
            path[at] = byte.to_bytes()
        return 0

    def control(self, line: str) -> int:
        """Write to inst_ctl; 0 or a negative errno."""
        text = line.encode()
        return self.ask("cgpu_inst_ctl", text, ctypes.c_size_t(len(text)), None)

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
            result = self.ask("cgpu_tree_write", ctypes.byref(node), text, size, None)
        return result


def new_bench(library: ctypes.CDLL, state: ctypes.Array[ctypes.c_char]) -> Bench:
    """Return a started bench on a buffer that may have been used before."""
    bench = Bench(library, state)
    bench.start()
    return bench
