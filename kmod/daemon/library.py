# SPDX-License-Identifier: Apache-2.0
"""libcgpud.so's structs and functions, as libcgpud/cgpud.h and kmod/core/include/cgpu_core.h declare them."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_long, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from cgpu.errors import CgpuError

LIBRARY = Path(__file__).resolve().parent.parent / "build" / "libcgpud.so"


class CSettings(ctypes.Structure):
    """struct cgpu_settings."""

    _fields_ = (
        ("engine", c_char * 16),
        ("version", c_char * 32),
        ("major", c_uint32),
        ("enforce", c_uint32),
        ("allow_zero_weight", c_uint32),
        ("policy", c_uint32),
        ("max_inst", c_uint32),
        ("prio_ratio", c_uint32),
        ("default_memsize", c_uint64),
        ("context_memory", c_uint64),
        ("drift_tolerance", c_uint64),
        ("page_margin", c_uint64),
        ("slice", c_uint64),
        ("drift_refuse", c_uint32),
        ("spare", c_uint32),
    )


class COptions(ctypes.Structure):
    """struct cgpud_options."""

    _fields_ = (
        ("driver_root", c_char_p),
        ("driver_rows", c_char_p),
        ("state_fd", c_int32),
        ("files_fd", c_int32),
        ("event_fd", c_int32),
        ("workers", c_uint32),
        ("allow_unknown_driver", c_uint32),
        ("managed_memory", c_uint32),
        ("follows", c_uint32),
        ("settings", CSettings),
    )


COUNTS = ("gpus", "workers", "listeners", "kept_answers", "recovered", "driver_error", "spare")
TOTALS = (
    *("supervised", "executed", "continued", "refused", "interrupted", "faults", "lost_lines"),
    *("turns", "gates", "gates_failed", "time_slices", "time_slices_left"),
)


class CStatus(ctypes.Structure):
    """struct cgpud_status."""

    _fields_ = (
        ("driver", c_char * 64),
        ("layout", c_char * 16),
        *((name, c_uint32) for name in COUNTS),
        *((name, c_uint64) for name in TOTALS),
    )


class CDeviceNode(ctypes.Structure):
    """struct cgpud_node."""

    _fields_ = (
        ("path", c_char * 256),
        ("character_device", c_uint32),
        ("major", c_uint32),
        ("minor", c_uint32),
    )


class CFacts(ctypes.Structure):
    """struct cgpu_gpu_facts."""

    _fields_ = (
        ("index", c_uint32),
        ("minor", c_uint32),
        ("gpu_id", c_uint32),
        ("device_instance", c_uint32),
        ("memtotal", c_uint64),
        ("uuid", c_char * 64),
        ("name", c_char * 64),
    )


class CContainer(ctypes.Structure):
    """struct cgpu_container_info."""

    _fields_ = (
        ("id", c_char * 128),
        ("cgroup", c_char * 512),
        ("pid", c_int32),
        ("slot", c_uint32),
        ("generation", c_uint64),
        ("passthrough", c_uint32),
        ("spare", c_uint32),
    )


class CReservation(ctypes.Structure):
    """struct cgpu_reservation_info."""

    _fields_ = (
        ("id", c_char * 128),
        ("gpu", c_uint32),
        ("slot", c_uint32),
        ("memsize", c_uint64),
    )


class Node(ctypes.Structure):
    """A node of the tree as the core found it. Only directory and mode are for readers."""

    _fields_ = (
        ("directory", c_uint32),
        ("mode", c_uint32),
        ("kind", c_uint32),
        ("gpu", c_int32),
        ("slot", c_int32),
        ("generation", c_uint64),
    )


class CRefusal(ctypes.Structure):
    """struct cgpu_refusal."""

    _fields_ = (("text", c_char * 384),)


def load_library() -> ctypes.CDLL:
    """Load the library and tell ctypes its functions. Raises CgpuError."""
    try:
        library = ctypes.CDLL(str(LIBRARY), use_errno=True)
    except OSError as error:
        raise CgpuError(f"{LIBRARY}: cannot be loaded ({error}); build it: make -C kmod") from error
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "cgpud_open": (c_int, [POINTER(c_void_p), POINTER(COptions), c_char_p, c_size_t]),
        "cgpud_core": (c_void_p, [c_void_p]),
        "cgpud_state_fd": (c_int, [c_void_p]),
        "cgpud_files_fd": (c_int, [c_void_p]),
        "cgpud_attach": (c_int, [c_void_p, c_int, c_uint32, c_uint64, c_uint64, c_uint32]),
        "cgpud_start": (c_int, [c_void_p, c_char_p, c_size_t]),
        "cgpud_apply": (c_int, [c_void_p, POINTER(CSettings)]),
        "cgpud_allow_managed": (None, [c_void_p, c_uint32]),
        "cgpud_kick": (None, [c_void_p]),
        "cgpud_status": (None, [c_void_p, POINTER(CStatus)]),
        "cgpud_node": (c_int, [c_void_p, c_uint32, POINTER(CDeviceNode)]),
        "cgpud_serves": (c_int, [c_void_p, c_uint64]),
        "cgpud_filtered": (c_int, [c_void_p, c_int32, c_uint32, c_uint64]),
        "cgpud_end_process": (c_int, [c_int32, c_char_p]),
        "cgpud_take_page": (c_int, [c_void_p, c_uint32]),
        "cgpud_close": (c_int, [c_void_p]),
        "cgpud_pause": (c_uint32, [c_void_p, c_uint32]),
        "cgpud_resume": (c_int, [c_void_p]),
        "cgpud_listener_fd": (c_int, [c_void_p, c_uint64]),
        "cgpud_state_check": (c_int, [c_int32]),
        "cgpu_gpu_facts": (c_int, [c_void_p, c_uint32, POINTER(CFacts)]),
        "cgpu_container_find": (c_int, [c_void_p, c_char_p, POINTER(CContainer)]),
        "cgpu_container_next": (c_int, [c_void_p, c_uint32, POINTER(CContainer)]),
        "cgpu_reservation_next": (c_int, [c_void_p, POINTER(c_uint32), POINTER(CReservation)]),
        "cgpu_witness_set": (None, [c_void_p, c_char_p]),
        "cgpu_container_remove": (c_int, [c_void_p, c_uint32, c_uint64]),
        "cgpu_tree_lookup": (c_int, [c_void_p, c_char_p, POINTER(Node)]),
        "cgpu_tree_name": (c_int, [c_void_p, POINTER(Node), c_uint32, c_char_p, c_size_t]),
        "cgpud_tree_read": (c_long, [c_void_p, POINTER(Node), c_char_p, c_size_t]),
        "cgpu_tree_write": (c_int, [c_void_p, POINTER(Node), c_char_p, c_size_t, POINTER(CRefusal)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
