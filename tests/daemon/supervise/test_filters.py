# SPDX-License-Identifier: Apache-2.0
"""Whether seccomp filters let no call reach the driver unseen, by their own instructions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgpu.run.calls import X86_64
from cgpu.run.supervision import (
    ALLOWED,
    ARCHITECTURE_AT,
    ARGUMENTS_AT,
    INSTRUCTION,
    JUMP_EQUAL,
    KILL_PROCESS,
    LOAD_WORD,
    NUMBER_AT,
    RETURN,
    USER_NOTIF,
    assemble,
)
from cgpu.runtime_config.oci_runtime.seccomp import supervise
from tests.daemon.harness import PROGRAMS, ROOT
from tests.daemon.test_programs import compiled
from tests.run.libseccomp import compile_profile

DENIED = 0x00050001
TRACED, LOGGED = 0x7FF00000, 0x7FFC0000
JUMP, JUMP_SET, LOAD_MEMORY, STORE, BACK = 0x05, 0x45, 0x60, 0x02, 0x16
KINDS = [LOAD_WORD, JUMP_EQUAL, JUMP_SET, JUMP, STORE, BACK, RETURN]
FIRST, SECOND = ARGUMENTS_AT, ARGUMENTS_AT + 8

Code = list[tuple[int, int, int, int]]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("filters") / "filters"
    sources = [PROGRAMS / "filters.c", ROOT / "kmod/daemon/host/filter.c"]
    compiled("-fsanitize=address,undefined", *sources, "-o", program)
    return program


def code(*instructions: tuple[int, int, int, int]) -> bytes:
    """Return a program of instructions (code, jump if true, if false, value)."""
    return b"".join(INSTRUCTION.pack(*one) for one in instructions)


def holds(judge: Path, folder: Path, *programs: bytes, salt: int = 1) -> bool:
    files = []
    for number, program in enumerate(programs):
        files.append(folder / f"filter{number}")
        files[-1].write_bytes(program)
    done = subprocess.run([judge, str(salt), *files], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout == "1\n"


def profile() -> dict[str, Any]:
    linux: dict[str, Any] = {}
    supervise(linux, "c1", [], shared=True)
    made: dict[str, Any] = linux["seccomp"]
    return made


def returning(value: int) -> bytes:
    return code((RETURN, 0, 0, value))


ONLY_FOR_X86_64 = code(
    (LOAD_WORD, 0, 0, ARCHITECTURE_AT),
    (JUMP_EQUAL, 0, 1, X86_64),
    (RETURN, 0, 0, USER_NOTIF),
    (RETURN, 0, 0, ALLOWED),
)
BUT_FOR_ONE_FILE = code(
    (LOAD_WORD, 0, 0, FIRST), (JUMP_EQUAL, 0, 1, 77), (RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, USER_NOTIF)
)
BUT_FOR_ONE_SIZE = code(
    (LOAD_WORD, 0, 0, SECOND), (JUMP_SET, 0, 1, 1 << 20), (RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, USER_NOTIF)
)
BY_A_DETOUR = code(
    (LOAD_WORD, 0, 0, FIRST),
    (STORE, 0, 0, 3),
    (LOAD_WORD, 0, 0, NUMBER_AT),
    (LOAD_MEMORY, 0, 0, 3),
    (JUMP_EQUAL, 1, 0, 5),
    (RETURN, 0, 0, USER_NOTIF),
    (RETURN, 0, 0, ALLOWED),
)


@pytest.mark.parametrize(
    "program",
    [
        returning(ALLOWED),
        returning(LOGGED),
        returning(TRACED),
        ONLY_FOR_X86_64,
        BUT_FOR_ONE_FILE,
        BUT_FOR_ONE_SIZE,
        BY_A_DETOUR,
        code((LOAD_WORD, 0, 0, FIRST), (BACK, 0, 0, 0)),
        code((JUMP, 0, 0, 4000), (RETURN, 0, 0, USER_NOTIF)),
        b"",
    ],
)
def test_filters_that_do_not_hold(judge: Path, tmp_path: Path, program: bytes) -> None:
    """A filter that lets a call pass for any file, size or architecture, or runs out, does not hold."""
    assert not holds(judge, tmp_path, program)
    assert holds(judge, tmp_path, program, returning(USER_NOTIF))


@pytest.mark.parametrize("value", [USER_NOTIF, DENIED, KILL_PROCESS])
def test_filters_that_notify_or_deny(judge: Path, tmp_path: Path, value: int) -> None:
    """A filter that notifies or denies whatever comes holds."""
    assert holds(judge, tmp_path, returning(value))


@pytest.mark.parametrize("salt", range(2))
def test_the_engines_own_filter(judge: Path, tmp_path: Path, salt: int) -> None:
    """The engine's rules hold, as libseccomp compiles them, and as `cgpu run` does."""
    assert holds(judge, tmp_path, compile_profile(profile()), salt=salt)
    assert holds(judge, tmp_path, assemble("x86_64", shared=True), salt=salt)


def test_a_profile_without_the_engines_rules(judge: Path, tmp_path: Path) -> None:
    """Neither a foreign profile nor a missing filter passes."""
    assert not holds(judge, tmp_path)
    made = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": []}
    assert not holds(judge, tmp_path, compile_profile(made))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 0xFFFF) | st.sampled_from(KINDS),
            st.integers(0, 255) | st.integers(0, 3),
            st.integers(0, 255) | st.integers(0, 3),
            st.integers(0, 0xFFFFFFFF) | st.sampled_from([0, 4, 16, 24, USER_NOTIF, ALLOWED]),
        ),
        max_size=40,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_instructions(judge: Path, tmp_path: Path, instructions: Code) -> None:
    """Instructions of any kind are judged without a fault, and do not hold behind one that allows."""
    holds(judge, tmp_path, code(*instructions))
    assert not holds(judge, tmp_path, code((RETURN, 0, 0, ALLOWED), *instructions))
