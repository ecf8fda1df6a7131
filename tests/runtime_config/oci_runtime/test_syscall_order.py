# SPDX-License-Identifier: Apache-2.0
"""The order of names: of real system calls, and of no consequence but for time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cgpu.runtime_config.oci_runtime import syscall_order
from cgpu.runtime_config.oci_runtime.syscall_order import BY_NUMBER, OF_ONE_CALL, quick_order
from tests.run.libseccomp import ARCHITECTURES, COMPARISONS, RefusedError, compile_profile, known

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
PROFILE = Path("/usr/share/containers/seccomp.json")
ON_X86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs x86-64, whose numbers these are")
ALLOW = "SCMP_ACT_ALLOW"
ERRNO = "SCMP_ACT_ERRNO"
LOG = "SCMP_ACT_LOG"
JsonObject = dict[str, Any]


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


def rule(names: list[str], action: str = ALLOW, args: Sequence[tuple[int, str, int]] = ()) -> JsonObject:
    """Return a rule of a profile. args: index, comparison, value; each index once at most."""
    tests = [{"index": index, "op": op, "value": value, "valueTwo": 0} for index, op, value in args]
    return {"names": names, "action": action, "args": tests}


def profile(rules: list[JsonObject], default: str = ERRNO) -> JsonObject:
    return {"defaultAction": default, "architectures": list(ARCHITECTURES), "syscalls": rules}


def ordered(rules: list[JsonObject]) -> list[JsonObject]:
    return [{**one, "names": quick_order(one["names"])} for one in rules]


@ON_X86_64
def test_the_filter_is_the_same() -> None:
    """libseccomp makes the same program of the calls that podman allows, in whichever order they come."""
    if not PROFILE.exists():
        pytest.skip("containers-common is not installed")
    rules = json.loads(PROFILE.read_text())["syscalls"]
    names = known(max((one["names"] for one in rules if one["action"] == ALLOW), key=len))
    assert len(names) > 300
    allowed = compile_profile(profile([rule(names)]))
    assert compile_profile(profile(ordered([rule(names)]))) == allowed
    assert compile_profile(profile([rule(names[1:])])) != allowed


def program_of(rules: list[JsonObject], default: str) -> bytes | None:
    """Return what libseccomp makes of a profile; None where it refuses one of its rules."""
    try:
        return compile_profile(profile(rules, default))
    except RefusedError:
        return None


NAMES = st.sampled_from(
    [*OF_ONE_CALL.split(), "read", "clone", "openat2", "mmap", "mmap2", "stat64", "ioctl"]
)
DRAWN = st.sampled_from([ALLOW, ERRNO, LOG, "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_NOTIFY"])
COMPARED = st.tuples(
    st.integers(0, 5), st.sampled_from([op for op in COMPARISONS if "MASKED" not in op]), st.integers(0, 4)
)
RULES = st.builds(
    rule,
    st.lists(NAMES, min_size=1, max_size=5),
    DRAWN,
    st.lists(COMPARED, max_size=2, unique_by=lambda one: one[0]),
)


@ON_X86_64
@settings(max_examples=300, deadline=None)
@given(st.lists(RULES, min_size=1, max_size=5), DRAWN)
@example(
    [
        rule(["socketcall"], LOG, ((2, "SCMP_CMP_NE", 3), (1, "SCMP_CMP_NE", 1))),
        rule(["bind", "socketcall"], ALLOW, ((2, "SCMP_CMP_NE", 0), (1, "SCMP_CMP_LT", 3))),
    ],
    ERRNO,
)
@example([rule(["semop"], LOG), rule(["semop", "ipc"], ERRNO)], ALLOW)
def test_any_profile_means_the_same(rules: list[JsonObject], default: str) -> None:
    """A profile is refused in both orders or in none, and its program is the same one."""
    assert program_of(ordered(rules), default) == program_of(rules, default)
