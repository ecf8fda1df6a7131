# SPDX-License-Identifier: Apache-2.0
"""Runs the test programs of the core, each test in a process of its own, under AddressSanitizer and UBSan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.build import (
    CORE_INCLUDES,
    CORE_SOURCES,
    PROGRAMS,
    build_programs,
    generated,
    run,
    tool,
)
from tests.integration.commands import call, must
from tests.vm.harness import cross

SKIPPED = 77  # what a test program exits with when the machine cannot do what it needs
TESTS = [
    (source, name)
    for source in PROGRAMS
    for name in re.findall(r"^TEST(?:_ON(?:_EACH)?)?\(\s*(\w+)[,)]", source.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="session")
def programs() -> dict[Path, Path]:
    return build_programs()


@pytest.mark.parametrize(("source", "name"), TESTS, ids=[f"{s.stem}-{n}" for s, n in TESTS])
def test_fact(programs: dict[Path, Path], source: Path, name: str) -> None:
    """The fact that a C test is named after holds, without a finding of the sanitizers."""
    done = call([*cross.RUNNER, programs[source], name], timeout=240)
    if done.returncode == SKIPPED:
        pytest.skip("this machine does not let one process step another (ptrace)")
    assert done.returncode == 0, done.stderr


def test_every_program_lists_its_tests(programs: dict[Path, Path]) -> None:
    """The C programs list exactly the tests that were run."""
    for source, program in programs.items():
        assert must([*cross.RUNNER, program, "--list"]).stdout.split() == [
            name for path, name in TESTS if path == source
        ]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_freestanding(compiler: str, tmp_path: Path) -> None:
    """The core needs no floating point, and no C library but memcpy, memset, memcmp and strlen."""
    bare = ["-std=gnu11", "-ffreestanding", "-nostdlib", "-mgeneral-regs-only", "-O2", "-c"]
    bare += ["-Wall", "-Wextra", "-Werror"]
    include = [*CORE_INCLUDES, f"-I{generated(tmp_path / 'gen')}"]
    run([tool(compiler), *bare, *include, *map(str, CORE_SOURCES)], tmp_path)
    symbols = must([tool("nm"), *tmp_path.glob("*.o")]).stdout
    wanted = set(re.findall(r"^ +U (\w+)$", symbols, re.MULTILINE))
    defined = set(re.findall(r"^[0-9a-f]+ [A-Z] (\w+)$", symbols, re.MULTILINE))
    outside = {name for name in wanted - defined if not name.startswith("nv_")}
    assert outside <= {"memcpy", "memset", "memcmp", "strlen"}
