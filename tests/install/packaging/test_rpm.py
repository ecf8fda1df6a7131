# SPDX-License-Identifier: Apache-2.0
"""The contents of the rpm packages: the same as Debian's, by the other family's rules."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cgpu import __version__
from tests.install.packaging.test_deb import locked
from tests.packages import Packages, Rpms

# The first test builds the packages.
pytestmark = pytest.mark.timeout(600)
FOLDERS = ("/usr/lib/opencgpu", "/usr/src/opencgpu-")
# Debian's path, and the same on Fedora and RHEL.
MOVED = (
    ("/lib/systemd/system/", "/usr/lib/systemd/system/"),
    ("/usr/share/zsh/vendor-completions/", "/usr/share/zsh/site-functions/"),
)
# Files that only one family's packages have: licences and notes of changes.
OF_DEBIAN = ("/usr/share/doc/", "/usr/share/lintian/")
OF_RPM = ("/usr/share/doc/", "/usr/share/licenses/")
# The oldest glibc of a distribution that the specification is for: RHEL 9's.
GLIBC = 34


# The content of these files is compared, too; compiled files are of another build.
TEXTS = (".py", ".path", ".service", ".socket", ".json")
TEXT_FOLDERS = ("/usr/bin/", "/usr/share/bash-completion/", "/usr/share/zsh/")
# Their first line names an interpreter by its path: packages for rpm must not look for one by env.
REWRITTEN = ("/abi/config_defaults.py", "/abi/generate.py", "/abi/judge.py", "/abi/slice_attributes.py")


class File(NamedTuple):
    """A file of a package as both kinds know it."""

    mode: str
    owner: str
    group: str
    link: str
    content: str  # its SHA-256


@pytest.fixture(scope="module")
def spec(repository: Path) -> str:
    return (repository / "install/packaging/rpm/opencgpu.spec").read_text()


def of_deb(package: Path) -> dict[str, File]:
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    archive = subprocess.check_output(command, timeout=60)
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
        for one in tree:
            kind = stat.S_IFDIR if one.isdir() else stat.S_IFLNK if one.issym() else stat.S_IFREG
            name = one.name.removeprefix(".")
            for debian, other in MOVED:
                name = name.replace(debian, other) if name.startswith(debian) else name
            read = tree.extractfile(one) if one.isreg() else None
            content = hashlib.sha256(read.read()).hexdigest() if read is not None else ""
            found[name] = File(stat.filemode(kind | one.mode), one.uname, one.gname, one.linkname, content)
    return found


def of_rpm(package: Path) -> dict[str, File]:
    found = {}
    columns = "FILENAMES", "FILEMODES", "FILEUSERNAME", "FILEGROUPNAME", "FILELINKTOS", "FILEDIGESTS"
    for line in queried(package, *columns):
        name, mode, *rest = line
        # rpm gives the bits of a mode as a signed number.
        found[name] = File(stat.filemode(int(mode) & 0xFFFF), *rest)
    return found


def queried(package: Path, *columns: str) -> Iterator[list[str]]:
    """Yield a line for each file of an rpm package."""
    shape = "[" + "\t".join(f"%{{{column}}}" for column in columns) + "\n]"
    command = ["rpm", "-qp", "--queryformat", shape, str(package)]
    for line in subprocess.check_output(command, text=True, timeout=60).splitlines():
        yield line.split("\t")


def compared(files: dict[str, File], own: tuple[str, ...]) -> dict[str, File]:
    """Leave out what only one family has, and folders that are not ours alone.

    debhelper makes libraries not executable; what takes the symbols out of rpm packages wants them so.
    """
    return {
        name: file._replace(
            mode="of a library" if name.endswith(".so") else file.mode,
            content=file.content if is_text(name) else "",
        )
        for name, file in files.items()
        if not name.startswith(own) and (not file.mode.startswith("d") or name.startswith(FOLDERS))
    }


def is_text(name: str) -> bool:
    return (name.endswith(TEXTS) and not name.endswith(REWRITTEN)) or name.startswith(TEXT_FOLDERS)


@pytest.mark.parametrize("which", ["daemon", "module"])
def test_same_files(packages: Packages, rpms: Rpms, which: str) -> None:
    """The same files, modes, owners and links; Python, units and completion are the same to the byte."""
    debian = compared(of_deb(getattr(packages, which)), OF_DEBIAN)
    rpm = compared(of_rpm(getattr(rpms.packages, which)), OF_RPM)
    assert len(debian) > 80
    assert rpm == debian


def unpacked(package: Path, target: Path) -> Path:
    with subprocess.Popen(["rpm2cpio", package], stdout=subprocess.PIPE) as archive:
        command = ["cpio", "--extract", "--quiet", "--make-directories", "--no-absolute-filenames"]
        subprocess.run(command, stdin=archive.stdout, cwd=target, check=True, timeout=60)
    return target


def test_versions(rpms: Rpms, spec: str, repository: Path) -> None:
    """The specification has the project's version, also for its last change, and each package has it."""
    assert re.findall(r"^Version: +(\S+)$", spec, re.MULTILINE) == [__version__]
    changes = spec.partition("%changelog\n")[2]
    assert re.match(rf"\* .+ - {re.escape(__version__)}-1\n", changes)
    assert {version for one in rpms.packages for (version,) in queried(one, "VERSION")} == {__version__}


def test_brought_along(spec: str, repository: Path) -> None:
    """The specification names each bundled Python package with its version."""
    named = dict(re.findall(r"^Provides: +bundled\(python3dist\((\S+)\)\) = (\S+)$", spec, re.MULTILINE))
    assert named == locked(repository), "run: scripts/lock-bundled"


def test_source_package(rpms: Rpms, repository: Path, tmp_path: Path) -> None:
    """The source package has wheels for every Python of the lock, which run on the oldest glibc."""
    tree = unpacked(rpms.source, tmp_path)
    (archive,) = tree.glob("*-brought-along.tar.gz")
    with tarfile.open(archive) as brought:
        wheels = [Path(name).name for name in brought.getnames() if name.endswith(".whl")]
    (line,) = re.findall(
        r"^pythons=\((.*)\)$", (repository / "scripts/lock-bundled").read_text(), re.MULTILINE
    )
    tags = [f"cp{version.replace('.', '')}" for version in line.split()]
    for name in locked(repository):
        for tag in tags:
            mine = [one for one in wheels if one.lower().startswith(f"{name.replace('-', '_')}-")]
            assert [one for one in mine if f"-{tag}-{tag}-" in one or "-py3-" in one or "-abi3-" in one]
    for wheel in wheels:
        needed = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", wheel)]
        assert wheel.endswith("-any.whl") or min(needed) <= GLIBC, wheel


def parsed(repository: Path, *definitions: str) -> str:
    """Return the specification with its macros expanded."""
    if shutil.which("rpmspec") is None:
        pytest.skip("rpmspec is not installed; run: scripts/bootstrap test")
    packaging = repository / "install/packaging"
    command = ["rpmspec", "--parse", "--define", f"_sourcedir {packaging}"]
    for definition in definitions:
        command += ["--define", definition]
    done = subprocess.run(
        [*command, str(packaging / "rpm/opencgpu.spec")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("definitions", "python"),
    [
        ((), "/usr/bin/python3"),
        (("rhel 9",), "/usr/bin/python3.12"),
        (("rhel 10",), "/usr/bin/python3"),
        (("rhel 9", "cgpu_python /usr/bin/python3.11"), "/usr/bin/python3.11"),
    ],
)
def test_python(repository: Path, definitions: tuple[str, ...], python: str) -> None:
    """One interpreter builds the packages and runs them: RHEL 9's newer one there, or another."""
    text = parsed(repository, *definitions)
    package = python.rpartition("/")[2]
    assert re.findall(r"^(?:Build)?Requires: +(/\S+)$", text, re.MULTILINE) == [python] * 3
    assert re.search(rf"^BuildRequires: +{re.escape(package)}-pip$", text, re.MULTILINE)
    assert f",{python}\\2,g" in text
    section = text.partition("%prep\n")[2].partition("%check\n")[0]
    assert set(re.findall(r"/usr/bin/python[\d.]*", section)) == {python}


def test_depends(rpms: Rpms) -> None:
    """The daemon's package asks for the Python of its bytecode and for no compiler; the module's for dkms."""
    daemon, module = (
        subprocess.check_output(["rpm", "-qp", "--requires", one], text=True, timeout=60).splitlines()
        for one in rpms.packages
    )
    assert f"python(abi) = 3.{sys.version_info.minor}" in daemon
    assert {"fuse3", "/usr/bin/python3"} <= set(daemon)
    assert not {"gcc", "make", "dkms"} & set(daemon)
    assert {"dkms", "/usr/bin/python3"} <= set(module)
    offered = subprocess.check_output(
        ["rpm", "-qp", "--provides", rpms.packages.daemon], text=True, timeout=60
    )
    assert ".so" not in offered


def test_one_removal(packages: Packages, rpms: Rpms, repository: Path, tmp_path: Path) -> None:
    """Both kinds of packages look for the same reasons against their removal."""
    text = (repository / "install/packaging/before-removal").read_text()
    subprocess.run(["dpkg-deb", "--control", packages.daemon, tmp_path], check=True, timeout=60)
    query = ["rpm", "-qp", "--queryformat", "%{PREUN}", str(rpms.packages.daemon)]
    scripts = ((tmp_path / "prerm").read_text(), subprocess.check_output(query, text=True, timeout=60))
    for script in scripts:
        before, _, after = script.partition(text)
        assert "before_removal" not in before
        assert re.search(r"^\s+before_removal$", after, re.MULTILINE)
