# SPDX-License-Identifier: Apache-2.0
"""Runs the C tests of the daemon, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.daemon.harness import BUILD, PROGRAMS, ROOT
from tests.daemon.versions import CORE, library_objects
from tests.vm.harness import cross

BENCH = ROOT / "tests" / "core" / "bench"
# By their names, with the functions that each has its own of.
WRAPPED = {
    "architectures": (),
    "external_ledger": (
        "process_has_ended",
        "look_started",
        "devices_identify",
        "uvm_take_away",
        "workers_wake",
        "calloc",
    ),
    "killed_in_call": (),
    "late_events": ("epoll_wait", "cgroup_holds", "cgroup_populated", "reaper_reconcile"),
    "listening": (),
    "looks": ("process_ended",),
    "managed_spaces": ("process_has_ended", "look_started", "look_lives", "look_mappings", "notice_stands"),
    "samples": ("rm_control",),
    "timeslice_places": (),
    "warnings": ("look_copy",),
}
# These have cgpud start helpers by CLONE_PIDFD, which qemu-user does not know: tests/vm/life has them there.
HELPED = ("external_ledger", "killed_in_call", "looks", "managed_spaces")
HERE = [stem for stem in WRAPPED if not (cross.IS_FOREIGN and stem in HELPED)]


def list_tests(stems: Iterable[str]) -> list[tuple[str, str]]:
    """Return program and name of each test of some programs."""
    return [
        (stem, name)
        for stem in stems
        for name in re.findall(r"^TEST\((\w+)\)$", (PROGRAMS / f"{stem}.c").read_text(), re.MULTILINE)
    ]


def compiled(*words: str | Path) -> None:
    """Run the compiler where all headers of the core and of the daemon are found."""
    daemon = sorted({header.parent for header in (ROOT / "kmod" / "daemon").glob("*/*.h")})
    folders = [BUILD / "gen", *CORE, *daemon, BENCH, ROOT / "kmod" / "rm"]
    # A wrapper has all parameters of the function that it replaces, and uses few of them.
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-pthread"]
    command = [*cross.tool("gcc"), *cross.LINKED, "-std=gnu11", "-g", "-O1", *flags]
    command += [word for folder in folders for word in ("-iquote", str(folder))]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def build_programs(output: Path, stems: Iterable[str]) -> dict[str, Path]:
    """Build programs in a folder, by stem; each says itself what its wrapped functions do."""
    bench = output / "bench.o"
    compiled("-r", "-nostdlib", *sorted(BENCH.glob("*.c")), "-o", bench)
    for stem in stems:
        wrapped = [f"-Wl,--wrap={name}" for name in WRAPPED[stem]]
        compiled(*wrapped, PROGRAMS / f"{stem}.c", bench, *library_objects(), "-o", output / stem)
    return {stem: output / stem for stem in stems}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_programs(tmp_path_factory.mktemp("programs"), HERE)


@pytest.mark.parametrize(("stem", "name"), list_tests(HERE))
def test_fact(programs: dict[str, Path], stem: str, name: str) -> None:
    """The fact that a C test is named after holds."""
    command = [*cross.RUNNER, str(programs[stem]), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
