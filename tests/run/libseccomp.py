# SPDX-License-Identifier: Apache-2.0
"""The program that libseccomp makes of a profile, by the calls that runc makes."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import tempfile
from typing import Any

import pytest

# include/seccomp.h of libseccomp
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
COMPARISONS = {
    f"SCMP_CMP_{name}": number
    for number, name in enumerate(("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"), 1)
}
NATIVE = 0
ARCHITECTURES = {
    "SCMP_ARCH_X86_64": 0xC000003E,
    "SCMP_ARCH_X86": 0x40000003,
    "SCMP_ARCH_X32": 0x4000003E,
    "SCMP_ARCH_AARCH64": 0xC00000B7,
    "SCMP_ARCH_ARM": 0x40000028,
}
ACTIONS = {
    "SCMP_ACT_ALLOW": ALLOW,
    "SCMP_ACT_NOTIFY": NOTIFY,
    "SCMP_ACT_LOG": 0x7FFC0000,
    "SCMP_ACT_ERRNO": 0x00050001,  # with EPERM, as runc has it without errnoRet
    "SCMP_ACT_KILL_PROCESS": 0x80000000,
}
EEXIST = -17


class _Test(ctypes.Structure):
    _fields_ = (
        ("index", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("value_two", ctypes.c_uint64),
    )


def load() -> ctypes.CDLL:
    """Return the library that runc and crun use, or skip."""
    name = ctypes.util.find_library("seccomp")
    if name is None:
        pytest.skip("libseccomp is not installed; run: scripts/bootstrap test")
    library = ctypes.CDLL(name)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_arch_native.restype = ctypes.c_uint32
    return library


def _action(rule: Any) -> int:
    number = rule.get("errnoRet")
    return ACTIONS[rule["action"]] if number is None else ACTIONS["SCMP_ACT_ERRNO"] & ~0xFFFF | number


def compile_profile(profile: Any) -> bytes:
    """Return the program of a profile as the OCI specification writes it."""
    library = load()
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ACTIONS[profile["defaultAction"]])))
    for name in profile["architectures"]:
        assert library.seccomp_arch_add(context, ctypes.c_uint32(ARCHITECTURES[name])) in (0, EEXIST)
    if ARCHITECTURES[profile["architectures"][0]] != library.seccomp_arch_native():
        assert library.seccomp_arch_remove(context, ctypes.c_uint32(NATIVE)) == 0
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            tests = (_Test * len(rule["args"]))(
                *(
                    _Test(test["index"], COMPARISONS[test["op"]], test["value"], test["valueTwo"])
                    for test in rule["args"]
                )
            )
            action = ctypes.c_uint32(_action(rule))
            added = library.seccomp_rule_add_array(context, action, number, len(rule["args"]), tests)
            assert added == 0, name
    with tempfile.TemporaryFile() as file:
        assert library.seccomp_export_bpf(context, file.fileno()) == 0
        library.seccomp_release(context)
        return os.pread(file.fileno(), 1 << 20, 0)
