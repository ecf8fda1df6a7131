# SPDX-License-Identifier: Apache-2.0
"""The programs of the attacks, most of them clients of the driver (kmod/rm)."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.vm.harness.cross import BUILD, tool
from tests.vm.harness.store import ROOT, STORE, put

HERE = Path(__file__).resolve().parent / "programs"
PROBE = BUILD / "cgpu-probe"
PROBE_32 = BUILD / "cgpu-probe32"
PROBE_SOURCES = sorted((ROOT / "kmod" / "probe").glob("*.c"))
CLIENT_LIBRARY = BUILD / "librm.a"  # of kmod/rm, with the driver's tables
FREED = HERE / "freed"  # clients that go on after their memory is freed
UVM = HERE.parent / "uvm"
FUSE = HERE.parent / "fuse"  # programs with files that do not answer
PLACES = (HERE, UVM, FUSE, ROOT / "kmod" / "probe", ROOT / "kmod" / "rm", BUILD / "gen")
FLAGS = ("-std=gnu11", "-O2", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wno-psabi")
# The whole probe, to be called by another program.
AS_LIBRARY = "-Dmain=probe_main"


def compiled(name: str, sources: Sequence[Path], *flags: str, places: Sequence[Path] = PLACES) -> Path:
    """Compile sources into a program or library, unless that is done; return it. places: of headers."""
    every = [*tool("gcc"), *FLAGS, *flags, *(word for place in places for word in ("-iquote", str(place)))]
    headers = sorted(path for place in places for path in place.glob("*.h"))
    contents = hashlib.sha256(repr([every, *(path.read_bytes() for path in [*sources, *headers])]).encode())
    program = STORE / "attacks" / f"{name}-{contents.hexdigest()[:16]}"
    if not program.exists():
        with tempfile.TemporaryDirectory() as directory:
            output = Path(directory) / name
            subprocess.run([*every, "-o", output, *sources, "-ldl"], check=True)
            put(program, output.read_bytes())
            program.chmod(0o755)
    return program


@cache
def client(name: str, place: Path = HERE) -> Path:
    """Return the static program NAME.c of a folder, a client of the driver."""
    return compiled(name, [place / f"{name}.c", HERE / "client.c", CLIENT_LIBRARY], "-static")


@cache
def alone(name: str, *flags: str, place: Path = HERE) -> Path:
    """Return the program or library NAME.c of a folder, which speaks to no driver."""
    return compiled(name, [place / f"{name}.c"], *flags)


@cache
def uvm_probe() -> Path:
    """Return the static program that speaks to nvidia-uvm, and maps memory by it."""
    return compiled("uvm-probe", [*sorted(UVM.glob("*.c")), HERE / "client.c", CLIENT_LIBRARY], "-static")


@cache
def uvm_client(name: str) -> Path:
    """Return the static program NAME.c, a client of the driver and of nvidia-uvm."""
    own = [HERE / f"{name}.c", HERE / "client.c", UVM / "uvm_calls.c"]
    return compiled(name, [*own, CLIENT_LIBRARY], "-static")


@cache
def dynamic_probe() -> Path:
    return compiled("probe-dynamic", [*PROBE_SOURCES, CLIENT_LIBRARY])


@cache
def probe_library() -> Path:
    sources = [*PROBE_SOURCES, CLIENT_LIBRARY]
    return compiled("libprobe.so", sources, "-shared", "-fPIC", AS_LIBRARY)


@cache
def guard() -> Path:
    """Return the library that is preloaded where a tool limits programs from inside."""
    return alone("guard", "-shared", "-fPIC")


@cache
def other_entry() -> Path:
    """Return cgpu-probe as a 64-bit program that calls the driver by the 32-bit entry of the kernel."""
    probe = compiled("probe.o", PROBE_SOURCES, "-r", "-nostdlib", "-fno-pie", AS_LIBRARY)
    sources = [HERE / "other_entry.c", probe, CLIENT_LIBRARY]
    return compiled("other_entry", sources, "-static", "-no-pie", "-Wl,--wrap=syscall")


@cache
def own_loader() -> Path:
    """Return a folder with a dynamic loader of one's own, which preloads nothing, and a libc of one's own."""
    folder = STORE / "attacks" / "loader"
    loader = Path("/lib64/ld-linux-x86-64.so.2").read_bytes()
    libc = subprocess.run(["gcc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True)
    assert b"/etc/ld.so.preload" in loader
    put(folder / "ld.so", loader.replace(b"/etc/ld.so.preload", b"/etc/ld.so.nothing"))
    (folder / "ld.so").chmod(0o755)
    put(folder / "libc.so.6", Path(libc.stdout.strip()).read_bytes())
    return folder
