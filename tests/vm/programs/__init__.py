# SPDX-License-Identifier: Apache-2.0
"""Static programs for the guest: each is one C file here, a client of the driver (kmod/rm)."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.vm.harness.store import ROOT, STORE, digest, put

HERE = Path(__file__).resolve().parent
KMOD = ROOT / "kmod"
GENERATED = KMOD / "build" / "gen"
CLIENT = ROOT / "tests" / "attacks" / "programs"
UVM = ROOT / "tests" / "attacks" / "uvm"
CLIENT_LIBRARIES = {64: KMOD / "build" / "librm.a", 32: KMOD / "build" / "librm32.a"}
PLACES = (HERE, CLIENT, KMOD / "rm", KMOD / "probe", UVM, GENERATED)
FLAGS = ("-std=gnu11", "-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wshadow",
         "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wno-psabi")  # fmt: skip


@cache
def build(name: str, bits: int = 64) -> Path:
    """Compile NAME.c, and the files NAME_*.c that belong to it, unless that is done; return the program."""
    own = [HERE / f"{name}.c", *sorted(HERE.glob(f"{name}_*.c")), HERE / "userfault.c"]
    sources = [*own, CLIENT / "client.c", UVM / "uvm_calls.c", CLIENT_LIBRARIES[bits]]
    headers = [*(path for place in PLACES for path in place.glob("*.h"))]
    flags = [*FLAGS, f"-m{bits}", *(word for place in PLACES for word in ("-iquote", str(place)))]
    contents = [path.read_bytes() for path in [*sources, *sorted(headers)]]
    program = STORE / "programs" / f"{name}{bits}-{digest([*contents, repr(flags).encode()])}"
    if not program.exists():
        with tempfile.TemporaryDirectory() as directory:
            output = Path(directory) / name
            subprocess.run(["gcc", *flags, "-o", str(output), *map(str, sources)], check=True)
            put(program, output.read_bytes())
            program.chmod(0o755)
    return program
