# SPDX-License-Identifier: Apache-2.0
"""Other versions of cgpud, for upgrades: copies of the package with another number, or another core."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from cgpu.kmod.daemon.program import Program
from tests.daemon.harness import BUILD, ROOT

CORE = (ROOT / "kmod" / "core", ROOT / "kmod" / "core" / "include")
LEFT_OUT = shutil.ignore_patterns("build", "__pycache__", "*.c", "*.h", "*.cov", "module", "fuzz")
# These files of the core alone know the number of the state's layout.
LAYOUT_FILES = ("state", "recover")
SCRIPT = """#!{python} -P
import sys
sys.path.insert(0, {package!r})
{before}
from cgpu.kmod.daemon.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def library_objects() -> list[Path]:
    kmod = ROOT / "kmod"
    sources = [
        one.relative_to(kmod) for name in ("core", "daemon") for one in sorted((kmod / name).rglob("*.c"))
    ]
    others = (Path("rm/rm_structs.c"), Path("gen/nv_abi.c"))
    return [BUILD / "pic" / one.with_suffix(".o") for one in (*sources, *others)]


def build(directory: Path, version: str, flags: str = "", before: str = "") -> Program:
    """Make a version. flags: of the core's layout; before: lines of Python that run first."""
    package = directory / version
    shutil.copytree(ROOT / "cgpu", package / "cgpu", ignore=LEFT_OUT)
    init = package / "cgpu" / "__init__.py"
    text = init.read_text()
    assert '__version__ = "0.1.0"' in text
    init.write_text(text.replace('__version__ = "0.1.0"', f'__version__ = "{version}"'))
    built = package / "cgpu" / "kmod" / "build"
    built.mkdir()
    for name in ("cgpu-sim", "cgpu-check-driver"):
        (built / name).symlink_to(BUILD / name)
    if flags:
        library(built / "libcgpud.so", flags, directory)
    else:
        (built / "libcgpud.so").symlink_to(BUILD / "libcgpud.so")
    return script(package / "cgpud", package, before)


def script(path: Path, package: Path, before: str = "") -> Program:
    path.write_text(SCRIPT.format(python=sys.executable, package=str(package), before=before))
    path.chmod(0o755)
    return Program((str(path),))


def library(path: Path, flags: str, directory: Path) -> None:
    core = ROOT / "kmod" / "core"
    objects = [str(one) for one in library_objects() if one.stem not in LAYOUT_FILES]
    for name in LAYOUT_FILES:
        out = directory / f"{path.parent.parent.parent.parent.name}-{name}.o"
        options = [
            "-std=gnu11",
            "-O2",
            "-fPIC",
            *(word for folder in CORE for word in ("-iquote", str(folder))),
            "-iquote",
            f"{BUILD}/gen",
            *flags.split(),
        ]
        subprocess.run(["gcc", *options, "-c", str(core / "state" / f"{name}.c"), "-o", str(out)], check=True)
        objects.append(str(out))
    subprocess.run(["gcc", "-shared", "-pthread", "-o", str(path), *objects], check=True)
