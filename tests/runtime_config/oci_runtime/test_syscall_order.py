# SPDX-License-Identifier: Apache-2.0
"""The order of names: of real system calls, and of no consequence but for time."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cgpu.runtime_config.oci_runtime import syscall_order
from cgpu.runtime_config.oci_runtime.syscall_order import BY_NUMBER, OF_ONE_CALL, quick_order

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
PROFILE = Path("/usr/share/containers/seccomp.json")
ON_X86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86-64, whose numbers these are")
ALLOW = 0x7FFF0000  # SCMP_ACT_ALLOW of seccomp.h
LOG = 0x7FFC0000  # SCMP_ACT_LOG
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
    again = quick_order(names)
    assert sorted(again) == sorted(names)
    assert quick_order(again) == again


class Argument(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("index", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("value_two", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Rule:
    """A rule of a profile. arguments: index, operator of seccomp.h, value; one index once at most."""

    names: list[str]
    action: int = ALLOW
    arguments: tuple[tuple[int, int, int], ...] = ()


def filter_of(*rules: Rule, default: int = ERRNO) -> bytes:
    """Return the program that libseccomp makes of a profile, rule by rule; empty where it refuses one."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp"))
    library.seccomp_init.restype = ctypes.c_void_p
    made = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(default)))
    for architecture in ARCHITECTURES:
        assert library.seccomp_arch_add(made, ctypes.c_uint32(architecture)) == 0
    program = os.memfd_create("program")
    try:
        for rule in rules:
            given = [Argument(*one, 0) for one in rule.arguments]
            for name in rule.names:
                number = library.seccomp_syscall_resolve_name(name.encode())
                array = (Argument * len(given))(*given)
                action = ctypes.c_uint32(rule.action)
                if number != -1 and library.seccomp_rule_add_array(made, action, number, len(given), array):
                    return b""
        assert library.seccomp_export_bpf(made, program) == 0
        return os.pread(program, 1 << 20, 0)
    finally:
        library.seccomp_release(made)
        os.close(program)


def ordered(*rules: Rule) -> list[Rule]:
    return [replace(rule, names=quick_order(rule.names)) for rule in rules]


@ON_X86_64
def test_the_filter_is_the_same() -> None:
    """libseccomp makes the same program of the calls that podman allows, in whichever order they come."""
    if not PROFILE.exists():
        pytest.skip("containers-common is not installed")
    rules = json.loads(PROFILE.read_text())["syscalls"]
    names = max((rule["names"] for rule in rules if rule["action"] == "SCMP_ACT_ALLOW"), key=len)
    assert len(names) > 300
    allowed = filter_of(Rule(names))
    assert filter_of(*ordered(Rule(names))) == allowed
    assert filter_of(Rule(names[1:])) != allowed


NAMES = st.sampled_from(
    [*OF_ONE_CALL.split(), "read", "clone", "openat2", "mmap", "mmap2", "stat64", "ioctl"]
)
ACTIONS = st.sampled_from([ALLOW, ERRNO, ERRNO + 37, LOG, 0x80000000])  # the last one: SCMP_ACT_KILL_PROCESS
ARGUMENTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(0, 4)),
    max_size=2,
    unique_by=lambda one: one[0],
)
RULES = st.builds(Rule, st.lists(NAMES, min_size=1, max_size=5), ACTIONS, st.builds(tuple, ARGUMENTS))


@ON_X86_64
@settings(max_examples=300, deadline=None)
@given(st.lists(RULES, min_size=1, max_size=5), ACTIONS)
@example(
    [
        Rule(["socketcall"], ERRNO + 37, ((2, 1, 3), (1, 1, 1))),
        Rule(["bind", "socketcall"], ALLOW, ((2, 1, 0), (1, 2, 3))),
    ],
    ERRNO,
)
@example([Rule(["semop"], LOG), Rule(["semop", "ipc"], ERRNO)], ALLOW)
def test_any_profile_means_the_same(rules: list[Rule], default: int) -> None:
    """A profile is refused in both orders or in none, and its program is the same one."""
    assert filter_of(*ordered(*rules), default=default) == filter_of(*rules, default=default)
