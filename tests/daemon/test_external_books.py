# SPDX-License-Identifier: Apache-2.0
"""Runs external_books.c: mappings by UVM that an engine takes over from one that died."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.daemon.harness import BUILD, ROOT

SOURCE = Path(__file__).with_name("external_books.c")
NAMES = re.findall(r"\bTEST\((\w+)\),", SOURCE.read_text())
CORE_TESTS = ROOT / "tests" / "core"
WRAPPED = ("process_has_ended", "devices_identify", "uvm_take_away", "workers_wake")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Link it with the objects of the daemon's library."""
    output = tmp_path_factory.mktemp("books") / "external_books"
    shared = [CORE_TESTS / name for name in ("bench.c", "bench_calls.c", "bench_exports.c", "invariants.c")]
    folders = [BUILD / "gen", ROOT / "kmod" / "core", ROOT / "kmod" / "daemon", CORE_TESTS]
    command = ["gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [f"-Wl,--wrap={name}" for name in WRAPPED]
    command += [word for folder in folders for word in ("-iquote", str(folder))]
    objects = sorted((BUILD / "pic").glob("*/*.o"))
    command += [*map(str, [SOURCE, *shared, *objects]), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return output


@pytest.mark.parametrize("name", NAMES)
def test_fact(program: Path, name: str) -> None:
    """The fact that a C test is named after holds."""
    done = subprocess.run([program, name], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_program_lists_its_tests(program: Path) -> None:
    """What it says it holds is what was run."""
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True, timeout=60)
    assert listed.stdout.split() == NAMES
