# SPDX-License-Identifier: Apache-2.0
"""Builds the core for its tests: with sanitizers for C programs, and as a library for ctypes.

Programs and library are kept in kmod/build/tests/core, and built again when their sources change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.commands import hold_lock
from tests.vm.harness import cross

HERE = Path(__file__).resolve().parent
KMOD = HERE.parent.parent / "kmod"
SCHEMA = HERE.parent.parent / "cgpu" / "config" / "schema.json"
SLICE = HERE.parent.parent / "cgpu" / "slice.py"
CORE_SOURCES = sorted((KMOD / "core").glob("*/*.c"))
CORE_INCLUDES = (f"-I{KMOD / 'core'}", f"-I{KMOD / 'core' / 'include'}")
CLIENT = KMOD / "rm"
BENCH = HERE / "bench"
BENCH_SOURCES = [*sorted(BENCH.glob("*.c")), CLIENT / "rm_structs.c"]
STORE = cross.BUILD / "tests" / "core"
PROGRAMS = sorted(HERE.glob("*/test_*.c"))
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wvla")


def tool(name: str) -> str:
    """Return the path of a program, or skip the test that needs it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(command: list[str], folder: Path | None = None) -> None:
    """Run a build step, in a folder; a failure shows what it printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def generated(output: Path) -> Path:
    """Generate the headers, and the driver's tables, into a folder of their own and return it."""
    run([tool("python3"), "-I", str(KMOD / "abi" / "generate.py"), str(output), "card"])
    for maker, source in (("config_defaults", SCHEMA), ("slice_attributes", SLICE)):
        run([tool("python3"), "-I", str(KMOD / "abi" / f"{maker}.py"), str(source), str(output)])
    return output


def flags(gen: Path) -> list[str]:
    return ["-std=gnu11", "-g", "-O1", *WARNINGS, *CORE_INCLUDES, f"-I{gen}", f"-I{BENCH}", f"-I{CLIENT}"]


def sources(gen: Path) -> list[str]:
    return [*map(str, CORE_SOURCES), str(gen / "nv_abi.c")]


def make_goal(
    goal: str,
    options: list[str],
    name: str = "library",
    more: Sequence[Path] = (),
    compiler: str = "clang",
) -> None:
    """Have make build a goal in the store, with more sources. Other processes of pytest wait."""
    STORE.mkdir(parents=True, exist_ok=True)
    places = [
        f"OUT={STORE}",
        f"KMOD={KMOD}",
        f"SCHEMA={SCHEMA}",
        f"SLICE={SLICE}",
        f"NAME={name}",
        f"MORE={' '.join(map(str, more))}",
        f"COMPILER={compiler}",
    ]
    jobs = f"-j{os.cpu_count() or 1}"
    with hold_lock(STORE / "lock"):
        run([tool("make"), "-C", str(HERE), jobs, goal, *places, f"FLAGS={' '.join(options)}"])


def build_programs() -> dict[Path, Path]:
    """Build the test programs; return the program of each source. No sanitizer goes with qemu-user."""
    compiler = cross.tool("gcc") if cross.IS_FOREIGN else [tool("clang")]
    more = cross.LINKED or SANITIZE
    make_goal("programs", [*flags(STORE / "gen"), *more, "-DCORE_ASSERT_LOCKED"], compiler=" ".join(compiler))
    return {source: STORE / "programs" / source.stem for source in PROGRAMS}


def build_library(name: str, *options: str, more: Sequence[Path] = ()) -> Path:
    """Build the core, and more sources, as a library for ctypes. Undefined behaviour ends the process."""
    trap = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    make_goal("library", [*flags(STORE / "gen"), *trap, *options], name, more)
    return STORE / name / "libcgpu_core.so"
