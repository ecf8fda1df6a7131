# SPDX-License-Identifier: Apache-2.0
"""Packages and bundle of the checkout, made once for its contents, and Debian's as another version."""

from __future__ import annotations

import hashlib
import py_compile
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from cgpu import __version__
from tests.integration.commands import hold_lock, must

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "kmod" / "build" / "packages"
BUNDLE_STORE = ROOT / "kmod" / "build" / "bundles"
RPM_STORE = ROOT / "kmod" / "build" / "rpm-packages"
# A version of the same length, so that it can be put into compiled programs, too.
OLD = re.sub(r"\d", "0", __version__)
BUILD = ("install/packaging/build-packages",)
BUILD_S = 1000  # a minute where nothing else runs
# One commit would differ from the next in nothing but this.
EPOCH = {"SOURCE_DATE_EPOCH": "1764547200"}
UNPACKAGED = ("tests/", "benchmarks/", ".github/")
COMPILED = py_compile.PycInvalidationMode.UNCHECKED_HASH


class Packages(NamedTuple):
    """The Debian packages, or the rpm packages."""

    daemon: Path
    module: Path


def digest() -> str:
    """Return a short name for all that the packages may be made of."""
    git = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    whole = hashlib.sha256()
    for name in sorted(set(listed.split("\0"))):
        if name and not name.startswith(UNPACKAGED) and (ROOT / name).is_file():
            whole.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return whole.hexdigest()[:16]


def bundle() -> Path:
    (archive,) = stored(BUNDLE_STORE, "install/packaging/build-bundle").glob("opencgpu-*.tar.gz")
    return archive


def packages() -> Packages:
    fast = {"DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    return found(stored(STORE, *BUILD, "deb", CGPU_BUNDLE=str(bundle()), **fast))


def rpms() -> Packages:
    folder = stored(RPM_STORE, *BUILD, "rpm", CGPU_BUNDLE=str(bundle()))
    (daemon,) = folder.glob("opencgpu-[0-9]*.x86_64.rpm")
    (module,) = folder.glob("opencgpu-dkms-*.noarch.rpm")
    return Packages(daemon, module)


def stored(store: Path, script: str, *words: str, **environment: str) -> Path:
    """Return the folder with what a script builds of the checkout as it is now."""
    folder = store / digest()
    with hold_lock(store / "lock"):
        if not folder.exists():
            for old in store.glob("????????????????"):
                shutil.rmtree(old)
            part = store / "part"
            shutil.rmtree(part, ignore_errors=True)
            must([ROOT / script, *words, part], EPOCH | environment, BUILD_S)
            part.rename(folder)
    return folder


def found(folder: Path) -> Packages:
    (daemon,) = folder.glob("opencgpu_*.deb")
    (module,) = folder.glob("opencgpu-dkms_*.deb")
    return Packages(daemon, module)


def older(new: Packages, target: Path) -> Packages:
    """Return packages as those of the release before might be: the same, with another version."""
    for package in new:
        tree = target / f"{package.stem}.tree"
        subprocess.run(["dpkg-deb", "-R", str(package), str(tree)], check=True, timeout=60)
        for path in (
            *tree.glob("DEBIAN/*"),
            *tree.glob("usr/src/*/dkms.conf"),
            *tree.rglob("cgpu/__init__.py"),
        ):
            renumber(path)
        for path in (*tree.glob("usr/src/*"), *tree.rglob(f"opencgpu-{__version__}.dist-info")):
            path.rename(path.with_name(path.name.replace(__version__, OLD)))
        compile_anew(tree)
        made = target / package.name.replace(__version__, OLD)
        command = ["dpkg-deb", "-Zgzip", "--root-owner-group", "-b", str(tree), str(made)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return found(target)


def older_bundle(new: Path, target: Path) -> Path:
    """Return a bundle as that of the release before might be: the same, with another version."""
    tree = target / "tree"
    tree.mkdir()
    subprocess.run(["tar", "-xf", new, "-C", tree], check=True, timeout=60)
    folder = tree / "opencgpu"
    (folder / __version__).rename(folder / OLD)
    (folder / "current").unlink()
    (folder / "current").symlink_to(OLD)
    for path in tree.rglob("cgpu/__init__.py"):
        renumber(path)
    compile_anew(tree)
    made = target / new.name.replace(__version__, OLD)
    subprocess.run(["tar", "-czf", made, "-C", tree, "opencgpu"], check=True, timeout=60)
    shutil.rmtree(tree)
    return made


def compile_anew(tree: Path) -> None:
    """Compile the file with the version, whose compiled form is not checked against it."""
    for path in tree.rglob("cgpu/__init__.py"):
        py_compile.compile(str(path), dfile=f"/{path.relative_to(tree)}", invalidation_mode=COMPILED)


def renumber(path: Path) -> None:
    """Put the other version into a file, in each of the forms that it has."""
    data = path.read_bytes()
    for separator in ".", "_":
        new, old = (text.replace(".", separator).encode() for text in (__version__, OLD))
        data = data.replace(new, old)
    path.write_bytes(data)
