# SPDX-License-Identifier: Apache-2.0
"""The order of names: of real system calls, and of no consequence but for time."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.runtime_config.oci_runtime import syscall_order
from cgpu.runtime_config.oci_runtime.syscall_order import BY_NUMBER, quick_order

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
PROFILE = Path("/usr/share/containers/seccomp.json")
ON_X86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86-64, whose numbers these are")
ALLOW = 0x7FFF0000  # SCMP_ACT_ALLOW of seccomp.h
ERRNO = 0x00050001  # SCMP_ACT_ERRNO(1)
ARCHITECTURES = (0x40000003, 0x4000003E)  # SCMP_ARCH_X86 and SCMP_ARCH_X32, beside the machine's own


@ON_X86_64
def test_the_order_is_the_kernels() -> None:
    """Each call is one of the kernel's, and they are in the order of its numbers."""
    defined = re.findall(r"__NR_(\w+) (\d+)", HEADER.read_text())
    by_number = [name for name, _ in sorted(defined, key=lambda one: int(one[1]))]
    ours = BY_NUMBER.split()
    # A later kernel has more, not only at the end: uretprobe came to stand in a gap.
    assert [name for name in by_number if name in ours] == ours


@ON_X86_64
def test_the_newest_is_first() -> None:
    """Unknown calls come first, then those with the highest numbers."""
    assert quick_order(["read", "mmap2", "write", "openat2"]) == ["mmap2", "openat2", "write", "read"]


def test_other_machines_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of another machine say nothing."""
    monkeypatch.setattr(syscall_order, "MACHINE", "aarch64" if os.uname().machine == "x86_64" else "x86_64")
    assert quick_order(["read", "mmap2", "write"]) == ["read", "mmap2", "write"]


@given(st.lists(st.sampled_from(BY_NUMBER.split()) | st.text(max_size=8)))
def test_no_name_is_lost(names: list[str]) -> None:
    """Names stay the same ones, repeated ones too, and a second time changes nothing."""
    ordered = quick_order(names)
    assert sorted(ordered) == sorted(names)
    assert quick_order(ordered) == ordered


def filter_of(names: list[str]) -> bytes:
    """Return the program that libseccomp makes for calls that are allowed."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp"))
    library.seccomp_init.restype = ctypes.c_void_p
    made = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ERRNO)))
    for architecture in ARCHITECTURES:
        assert library.seccomp_arch_add(made, ctypes.c_uint32(architecture)) == 0
    for name in names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number != -1:
            assert library.seccomp_rule_add_array(made, ctypes.c_uint32(ALLOW), number, 0, None) == 0
    program = os.memfd_create("program")
    try:
        assert library.seccomp_export_bpf(made, program) == 0
        return os.pread(program, 1 << 20, 0)
    finally:
        library.seccomp_release(made)
        os.close(program)


@ON_X86_64
def test_the_filter_is_the_same() -> None:
    """libseccomp makes the same program of the calls that podman allows, in whichever order they come."""
    if not PROFILE.exists():
        pytest.skip("containers-common is not installed")
    rules = json.loads(PROFILE.read_text())["syscalls"]
    names = max((rule["names"] for rule in rules if rule["action"] == "SCMP_ACT_ALLOW"), key=len)
    assert len(names) > 300
    assert filter_of(quick_order(names)) == filter_of(names) == filter_of(sorted(names))
    assert filter_of(names) != filter_of(names[1:])
