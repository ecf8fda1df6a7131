# SPDX-License-Identifier: Apache-2.0
"""libcgpu-replay.so: the engine's core and simulated cards in this process (kmod/replay/replay.h)."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from cgpu.errors import CgpuError, show

LIBRARY = Path(__file__).resolve().parent.parent / "kmod" / "build" / "libcgpu-replay.so"
ERROR_BYTES = 256
CONTROL, CARD, UVM, OTHER = range(4)  # enum replay_node
COPY_IN, CONTINUE, EXECUTE, ANSWER, REFUSE = range(5)  # enum cgpu_verdict


class CCall(ctypes.Structure):
    """struct replay_call."""

    _fields_ = (
        ("file", c_uint64),
        ("process", c_uint32),
        ("nr", c_uint32),
        ("bytes", c_uint32),
        ("ask_only", c_uint32),
        ("top", c_void_p),
        ("memory", c_void_p),
        ("memory_bytes", c_uint64),
        ("verdict", c_int32),
        ("result", c_int32),
    )


SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "cgpu_replay_new": (c_void_p, [c_char_p, c_char_p, c_uint64, c_char_p]),
    "cgpu_replay_free": (None, [c_void_p]),
    "cgpu_replay_open": (c_uint64, [c_void_p, c_uint32, c_uint32]),
    "cgpu_replay_close": (None, [c_void_p, c_uint64]),
    "cgpu_replay_call": (c_int, [c_void_p, POINTER(CCall)]),
    "cgpu_replay_cards": (c_uint32, [c_void_p]),
    "cgpu_replay_taken": (c_uint64, [c_void_p, c_uint32]),
    "cgpu_replay_charged": (c_uint64, [c_void_p, c_uint32]),
}


def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise CgpuError(f"{path}: cannot be loaded ({error}); build it: make -C kmod") from error
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Stage:
    """One slice over simulated cards."""

    def __init__(self, driver: str, cards: str, memory: int, path: Path = LIBRARY) -> None:
        """memory: of the slice on each card in bytes, 0 for all of it. Raises CgpuError."""
        self._lib = _load(path)
        error = ctypes.create_string_buffer(ERROR_BYTES)
        self._handle = self._lib.cgpu_replay_new(driver.encode(), cards.encode(), memory, error)
        if not self._handle:
            reason = error.value.decode("ascii", "replace")
            raise CgpuError(f"{show(cards)} with {memory or 'all'} bytes on driver {driver}: {reason}")

    def close(self) -> None:
        """Give everything up; once."""
        self._lib.cgpu_replay_free(self._handle)

    def open(self, node: int, card: int = 0) -> int:
        """Open a node; 0 when the slice does not have it."""
        return int(self._lib.cgpu_replay_open(self._handle, node, card))

    def release(self, file: int) -> None:
        """Close an open file for the last time."""
        self._lib.cgpu_replay_close(self._handle, file)

    def call(self, call: CCall) -> None:
        """Make a call; verdict and result are filled in. Raises CgpuError for a file that is not open."""
        if self._lib.cgpu_replay_call(self._handle, ctypes.byref(call)) != 0:
            raise CgpuError(f"file {call.file}: is not open in the replay; record the trace again")

    def cards(self) -> int:
        """Return the number of cards."""
        return int(self._lib.cgpu_replay_cards(self._handle))

    def taken(self, card: int) -> int:
        """Return the bytes that the card has given out."""
        return int(self._lib.cgpu_replay_taken(self._handle, card))

    def charged(self, card: int) -> int:
        """Return the bytes that the core has charged."""
        return int(self._lib.cgpu_replay_charged(self._handle, card))
