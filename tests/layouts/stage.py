# SPDX-License-Identifier: Apache-2.0
"""stage.h through ctypes: builds the library, and makes its steps."""

from __future__ import annotations

import ctypes
from ctypes import c_bool, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Final

from tests.core.build import KMOD, build_library
from tests.structs import members

HERE = Path(__file__).resolve().parent
# Parts of the cards that are left out: their file system, and contents of memory.
MOUNT_ONLY = {"frontend", "contents"}
CTL, CARD = 0, 1
OUTSIDE: Final = 64  # in place of a container
REFUSE, CONTINUE, EXECUTE, ANSWER = range(4)  # as enum cgpu_verdict
FINE, STATUS, INTERRUPTED, UNHEARD = range(4)
PIECE: Final = 2 << 20
NOTHING = ctypes.CFUNCTYPE(None)


class CCall(ctypes.Structure):
    """struct driver_call."""

    _fields_ = members(
        "u64 file", "u32 process nr bytes", "pointer top memory", "u64 memory_bytes", "s32 verdict result"
    )


class StageCall(ctypes.Structure):
    """struct stage_call."""

    _anonymous_ = ("call",)
    _fields_ = (("call", CCall), *members("u32 container fault status"), ("between", NOTHING))


SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "cgpu_state_bytes": (ctypes.c_size_t, []),
    "stage_new": (c_void_p, [c_void_p, c_char_p, c_char_p, c_uint32, c_uint32]),
    "stage_free": (None, [c_void_p]),
    "stage_create": (c_int, [c_void_p, c_char_p, c_char_p]),
    "stage_destroy": (None, [c_void_p, c_uint32]),
    "stage_recover": (c_int, [c_void_p]),
    "stage_open": (c_uint64, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "stage_close": (None, [c_void_p, c_uint64]),
    "stage_call": (None, [c_void_p, ctypes.POINTER(StageCall)]),
    "stage_hold": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_uint32, NOTHING]),
    "stage_managed": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "stage_shrink": (None, [c_void_p, c_uint32]),
    "stage_let_go": (None, [c_void_p, c_uint32]),
    "stage_agree": (c_bool, [c_void_p, c_uint32, c_uint32]),
    "stage_charged": (c_uint64, [c_void_p, c_uint32, c_uint32]),
    "stage_limit": (c_uint64, [c_void_p, c_uint32, c_uint32]),
    "stage_card_free": (c_uint64, [c_void_p, c_uint32]),
    "stage_empty": (c_bool, [c_void_p]),
    "stage_said": (c_char_p, [c_void_p]),
}


def build(name: str = "layouts", *options: str) -> Path:
    """Build core, cards and stage as one library. Undefined behaviour ends the process."""
    cards = [path for path in sorted((KMOD / "sim").rglob("*.c")) if path.parent.name not in MOUNT_ONLY]
    core, sim = KMOD / "core", KMOD / "sim"
    folders = [core, core / "include", sim, *sorted(sim.rglob("*/")), HERE]
    include = [f"-iquote{folder}" for folder in folders]
    more = [*cards, *sorted(HERE.glob("*.c"))]
    return build_library(name, *include, *options, "-Wl,-Bsymbolic", "-pthread", more=more)


def load(path: Path) -> ctypes.CDLL:
    """Load the library and say how its functions are called."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Library:
    """The library, and memory for one state that one stage after another is made on."""

    def __init__(self, path: Path) -> None:
        self.c = load(path)
        self.state = ctypes.create_string_buffer(self.c.cgpu_state_bytes())
