# SPDX-License-Identifier: Apache-2.0
"""Make the file system of an image that has Python, OpenCGPU and nothing else.

The program runs on Debian; the image gets the interpreter and library of Debian's Python, and no shell,
package manager or anything else that no part for a cluster needs.

usage: python_tree.py TREE LAY-OUT WHEELS

LAY-OUT is install/packaging/lay-out, WHEELS a folder of wheels, with that of pip.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

LIBRARY = Path("usr/lib/opencgpu")
# Modules of Python's library that serve people at a terminal or developers, or need more libraries.
LEFT_OUT = ("__pycache__", "config-*", "curses", "dbm", "distutils", "ensurepip", "idlelib", "lib2to3",
            "pydoc_data", "sqlite3", "test", "tkinter", "turtle*", "unittest", "venv", "_crypt.*",
            "_curses*", "_dbm.*", "_gdbm.*", "_sqlite3*", "_test*", "nis.*", "readline.*")  # fmt: skip
LAUNCHER = """\
#!/usr/bin/python3 -IS
import sys
sys.path.insert(0, "/usr/lib/opencgpu")
from cgpu.main import main
sys.exit(main())
"""
FILES = {
    "etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
NEEDED = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def main(tree: Path, lay_out: Path, wheels: Path) -> None:
    """Make the tree, which is not there yet."""
    for name in ("bin", "lib", "lib64", "sbin"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    (tree / "tmp").mkdir(mode=0o1777)
    (tree / "etc").mkdir()
    for name, text in FILES.items():
        (tree / name).write_text(text)
    copy_python(tree)
    install(tree, lay_out, wheels)
    for library in sorted(libraries(tree)):
        target = tree / "usr" / library.lstrip("/").removeprefix("usr/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, target)
    compile_library(tree)


def copy_python(tree: Path) -> None:
    """Copy the interpreter and its library."""
    shutil.copy2(sys.executable, tree / "usr/bin/python3")
    library = sysconfig.get_path("stdlib")
    shutil.copytree(library, below(tree, library), symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))


def install(tree: Path, lay_out: Path, wheels: Path) -> None:
    """Put the wheels where Debian's package has them, and the commands."""
    (pip,) = wheels.glob("pip-*.whl")
    others = sorted(path for path in wheels.glob("*.whl") if path != pip)
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore", "CGPU_PIP": f"{sys.executable} {pip}/pip"}
    subprocess.run(["/bin/sh", lay_out, tree, sys.executable, *others], env=environment, check=True)
    command = tree / "usr/bin/cgpu"
    command.write_text(LAUNCHER)
    command.chmod(0o755)
    # Programs of a node, but for one that `helm test` runs in a slice.
    built = tree / LIBRARY / "cgpu/kmod/build"
    probe = (built / "cgpu-probe").rename(tree / "usr/bin/cgpu-probe")
    probe.chmod(0o755)
    shutil.rmtree(built)


def libraries(tree: Path) -> Iterator[str]:
    """Yield the paths of all libraries that programs and extensions in the tree load."""
    objects = [path for path in (tree / "usr").rglob("*") if not path.is_symlink() and is_object(path)]
    yield from set(needed(objects))


def is_object(path: Path) -> bool:
    """Say whether a file is loaded by the dynamic linker: the interpreter, or an extension of Python."""
    return path.name == "python3" or (path.is_file() and path.name.endswith((".so", ".abi3.so")))


def needed(objects: Iterable[Path]) -> Iterator[str]:
    """Yield what ldd says of each. Raises SystemExit where a library is missing."""
    for path in objects:
        said = subprocess.run(["/usr/bin/ldd", path], capture_output=True, text=True, check=False).stdout
        if "not found" in said:
            sys.exit(f"python_tree: {path}: this Debian lacks one of its libraries:\n{said}")
        yield from NEEDED.findall(said)


def compile_library(tree: Path) -> None:
    """Make the bytecode of Python's library: the image is read-only where it runs."""
    library = below(tree, sysconfig.get_path("stdlib"))
    command = [sys.executable, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    subprocess.run([*command, "-s", str(tree), "-p", "/", str(library)], check=True)


def below(tree: Path, path: str) -> Path:
    """Return where a path of this system is in the tree."""
    return tree / path.lstrip("/")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
