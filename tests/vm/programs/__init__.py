# SPDX-License-Identifier: Apache-2.0
"""Static programs for the guest: each is one C file here, a client of the driver (kmod/rm)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.attacks.build import HERE as CLIENT
from tests.attacks.build import PLACES, UVM, compiled
from tests.vm.harness.cross import BUILD

HERE = Path(__file__).resolve().parent
CLIENT_LIBRARIES = {64: BUILD / "librm.a", 32: BUILD / "librm32.a"}


@cache
def build(name: str, bits: int = 64) -> Path:
    """Compile NAME.c, and the files NAME_*.c that belong to it, unless that is done; return the program."""
    own = [HERE / f"{name}.c", *sorted(HERE.glob(f"{name}_*.c")), HERE / "userfault.c"]
    sources = [*own, CLIENT / "client.c", UVM / "uvm_calls.c", CLIENT_LIBRARIES[bits]]
    flags = ["-static", *(["-m32"] if bits == 32 else []), "-Wstrict-prototypes", "-Wmissing-prototypes"]
    return compiled(f"{name}{bits}", sources, *flags, places=(HERE, *PLACES))
