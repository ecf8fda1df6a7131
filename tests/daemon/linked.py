# SPDX-License-Identifier: Apache-2.0
"""Links a C test program with the objects of the daemon's library and the core's test bench, and runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.daemon.harness import BUILD, ROOT

CORE = (ROOT / "kmod" / "core", ROOT / "kmod" / "core" / "include")
BENCH = ROOT / "tests" / "core" / "bench"


def library_objects() -> list[Path]:
    """Return what libcgpud.so is linked of."""
    kmod = ROOT / "kmod"
    sources = [
        one.relative_to(kmod) for name in ("core", "daemon") for one in sorted((kmod / name).rglob("*.c"))
    ]
    others = (Path("rm/rm_structs.c"), Path("gen/nv_abi.c"))
    return [BUILD / "pic" / one.with_suffix(".o") for one in (*sources, *others)]


def linked(source: Path, wrapped: Sequence[str], output: Path) -> Path:
    """Return the program; it says itself what the wrapped functions do."""
    daemon = sorted({header.parent for header in (ROOT / "kmod" / "daemon").glob("*/*.h")})
    folders = [BUILD / "gen", *CORE, *daemon, BENCH, ROOT / "kmod" / "rm"]
    command = ["gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [f"-Wl,--wrap={name}" for name in wrapped]
    command += [word for folder in folders for word in ("-iquote", str(folder))]
    command += [*map(str, [source, *sorted(BENCH.glob("*.c")), *library_objects()]), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return output


def succeeds(program: Path, *arguments: str) -> None:
    """Fail with what the program says unless it ends well."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
