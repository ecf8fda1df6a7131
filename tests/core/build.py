# SPDX-License-Identifier: Apache-2.0
"""Builds the core for its tests: with sanitizers for C programs, and as a library for ctypes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
KMOD = HERE.parent.parent / "kmod"
SCHEMA = HERE.parent.parent / "cgpu" / "config" / "schema.json"
CORE_SOURCES = sorted((KMOD / "core").glob("*/*.c"))
CORE_INCLUDES = (f"-I{KMOD / 'core'}", f"-I{KMOD / 'core' / 'include'}")
CLIENT = KMOD / "rm"
BENCH = HERE / "bench"
BENCH_SOURCES = [*sorted(BENCH.glob("*.c")), CLIENT / "rm_structs.c"]
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
    """Generate the driver's tables and config_defaults.h into a folder of their own and return it."""
    run([tool("python3"), "-I", str(KMOD / "abi" / "generate.py"), str(output), "card"])
    run([tool("python3"), "-I", str(KMOD / "abi" / "config_defaults.py"), str(SCHEMA), str(output)])
    return output


def flags(gen: Path) -> list[str]:
    return ["-std=gnu11", "-g", "-O1", *WARNINGS, *CORE_INCLUDES, f"-I{gen}", f"-I{BENCH}", f"-I{CLIENT}"]


def sources(gen: Path) -> list[str]:
    return [*map(str, CORE_SOURCES), str(gen / "nv_abi.c")]


def build_objects(output: Path) -> list[str]:
    """Compile the core and what the test programs share, with sanitizers, and return the object files."""
    gen = generated(output / "gen")
    objects = output / "objects"
    objects.mkdir()
    shared = map(str, BENCH_SOURCES)
    command = [tool("clang"), *flags(gen), *SANITIZE, "-DCORE_ASSERT_LOCKED", "-c", *sources(gen), *shared]
    run(command, objects)
    return sorted(map(str, objects.glob("*.o")))


def build_program(source: Path, objects: list[str], gen: Path, output: Path) -> Path:
    """Link one test program and return its path."""
    program = output / source.stem
    run([tool("clang"), *flags(gen), *SANITIZE, str(source), *objects, "-o", str(program)])
    return program


def build_library(output: Path, *defines: str) -> Path:
    """Build the core as a library for ctypes. Undefined behaviour ends the process."""
    gen = generated(output / "gen")
    library = output / "libcgpu_core.so"
    trap = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    run([tool("cc"), *flags(gen), *trap, *defines, "-fPIC", "-shared", *sources(gen), "-o", str(library)])
    return library
