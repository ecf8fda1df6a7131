# SPDX-License-Identifier: Apache-2.0
"""The contents of the Debian and rpm packages, which are the bundle's."""

from __future__ import annotations

import importlib.util
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cgpu import __version__
from tests.install.packaging.machine import walk
from tests.packages import Packages

# The first test builds the packages.
pytestmark = pytest.mark.timeout(1200)

FOLDER = "usr/lib/opencgpu"
PYTHON = f"{FOLDER}/lib/bundle"
UNCHECKED = (1).to_bytes(4, "little")
# Debian's path, and the same on Fedora and RHEL.
ZSH = ("usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions")


@pytest.fixture(scope="module")
def tree(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_deb(packages.daemon, tmp_path_factory.mktemp("opencgpu"))


def unpack_deb(package: Path, target: Path) -> Path:
    subprocess.run(["dpkg-deb", "--extract", str(package), str(target)], check=True, timeout=60)
    return target


def unpack_rpm(package: Path, target: Path) -> Path:
    target.mkdir()
    with subprocess.Popen(["rpm2cpio", package], stdout=subprocess.PIPE) as archive:
        command = ["cpio", "--extract", "--quiet", "--make-directories", "--no-absolute-filenames"]
        subprocess.run(command, stdin=archive.stdout, cwd=target, check=True, timeout=60)
    return target


def locked(repository: Path) -> dict[str, str]:
    """Return name and version of each package that is brought along."""
    text = (repository / "install/packaging/bundled.txt").read_text()
    pairs = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def test_lintian(packages: Packages) -> None:
    """Lintian finds no error and no warning, but for what the overrides give a reason for."""
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed; run: scripts/bootstrap release")
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", *map(str, packages)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_commands(tree: Path, repository: Path) -> None:
    """Every command of the distribution is there, and the runtime; each is a link into the bundle."""
    scripts = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["scripts"]
    found = {path.name: path for path in (tree / "usr/bin").iterdir()}
    assert sorted(found) == sorted([*scripts, "cgpu-container-runtime"])
    for path in found.values():
        assert path.readlink() == Path("../lib/opencgpu/bin", path.name)
        assert path.resolve(strict=True).stat().st_mode & 0o111 == 0o111
    runtime = tree / PYTHON / "cgpu/runtime_config/launcher/cgpu-container-runtime"
    assert runtime.with_name(f"{runtime.name}.low-level").readlink() == Path(runtime.name)


def test_places(tree: Path) -> None:
    """Nothing is in Python's own folders, in /etc or in /usr/local."""
    tops = {str(path.relative_to(tree)) for path in (*tree.glob("*"), *tree.glob("usr/*/*"))}
    assert {top for top in tops if not top.startswith(("usr/bin", "usr/share"))} == {
        "usr",
        "usr/lib/opencgpu",
        "usr/lib/systemd",
    }


def test_unit(tree: Path, repository: Path) -> None:
    """Every unit of the project is in the package, and starts a command of it."""
    for unit in (repository / "kmod/units").iterdir():
        assert (tree / "usr/lib/systemd/system" / unit.name).exists()
    units = sorted((repository / "kmod/units").glob("*.service"))
    assert units
    for unit in units:
        text = (tree / "usr/lib/systemd/system" / unit.name).read_text()
        started = re.findall(r"^ExecStart=(/usr/bin/[\w-]+)", text, re.MULTILINE)
        assert started
        assert [name for name in started if not Path(tree, name.lstrip("/")).exists()] == []


def test_lock(repository: Path) -> None:
    """The bundled packages meet the project's dependencies, and those of kubectl's plugin."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["kubectl"], *extras["exporter"], *extras["top"]]
    wanted = [Requirement(text) for text in named]
    have = locked(repository)
    wrong = [str(one) for one in wanted if not one.specifier.contains(have.get(one.name.lower(), "0"))]
    assert wrong == [], "run: scripts/lock-bundled"


def test_bundled(tree: Path, repository: Path) -> None:
    """Exactly the locked packages are there beside our own, each with its licence."""
    folders = {path.name: path for path in (tree / PYTHON).glob("*.dist-info")}
    found = dict(name.removesuffix(".dist-info").rsplit("-", 1) for name in folders)
    names = {name.lower().replace("_", "-"): version for name, version in found.items()}
    assert names.pop("opencgpu")
    assert names == locked(repository)
    bare = [
        name for name, path in folders.items() if not [*path.glob("**/LICEN*"), *path.glob("**/COPYING*")]
    ]
    assert bare == []


def test_bytecode(tree: Path) -> None:
    """Every module has bytecode that is of its source and is not checked against it when it is imported."""
    sources = [path for path in (tree / FOLDER / "lib").rglob("*.py") if "programs" not in path.parts]
    assert len(sources) > 500
    for source in sources:
        name = f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        compiled = (source.parent / "__pycache__" / name).read_bytes()
        assert compiled[4:8] == UNCHECKED
        assert compiled[8:16] == importlib.util.source_hash(source.read_bytes())


def test_no_sources_of_programs(tree: Path) -> None:
    """The daemon's package has no sources of programs or of the module."""
    names = [path.name for path in (tree / FOLDER).rglob("*")]
    assert [name for name in names if name.endswith((".c", ".h", ".o")) or name == "Makefile"] == []


def test_module_sources(packages: Packages, repository: Path, tmp_path: Path) -> None:
    """The other package has what `make dkms-source` makes, to the byte."""
    tree = unpack_deb(packages.module, tmp_path / "package")
    command = ["make", "-C", f"{repository}/kmod/module", "dkms-source", f"DESTDIR={tmp_path}/made"]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    compare = ["diff", "-r", f"{tree}/usr/src", f"{tmp_path}/made/usr/src"]
    done = subprocess.run(compare, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def contents(tree: Path) -> dict[str, tuple[str, bytes]]:
    """Return mode and content, or a link's target, of each path but folders, by Fedora's names."""
    found = {}
    for name in walk(tree):
        path = tree / name
        mode = path.lstat().st_mode
        if not stat.S_ISDIR(mode) and "lintian" not in path.parts:
            content = str(path.readlink()).encode() if stat.S_ISLNK(mode) else path.read_bytes()
            found[name.replace(*ZSH)] = (stat.filemode(mode), content)
    return found


@pytest.mark.parametrize("which", ["daemon", "module"])
def test_same_files(packages: Packages, rpms: Packages, tmp_path: Path, which: str) -> None:
    """Both kinds have the same files, of root, with the same modes and contents."""
    deb, rpm = getattr(packages, which), getattr(rpms, which)
    debian = contents(unpack_deb(deb, tmp_path / "deb"))
    assert len(debian) > 80
    assert contents(unpack_rpm(rpm, tmp_path / "rpm")) == debian
    listed = subprocess.check_output(["dpkg-deb", "--contents", str(deb)], text=True, timeout=60)
    assert {line.split()[1] for line in listed.splitlines()} == {"root/root"}
    query = ["rpm", "-qp", "--queryformat", "[%{FILEUSERNAME}/%{FILEGROUPNAME}\n]", str(rpm)]
    assert set(subprocess.check_output(query, text=True, timeout=60).split()) == {"root/root"}


def test_fields(packages: Packages, rpms: Packages) -> None:
    """All have the project's version. The daemon's asks for nothing, the module's for dkms and Python."""
    assert {field(one, "Version") for one in packages} == {__version__}
    assert [field(one, "Depends") for one in packages] == ["", "dkms, python3 (>= 3.11)"]
    assert {queried(one, "--queryformat", "%{VERSION}") for one in rpms} == {__version__}
    wanted = [{line.split()[0] for line in queried(one, "--requires").splitlines()} for one in rpms]
    daemon, module = ({name for name in names if not name.startswith("rpmlib(")} for names in wanted)
    assert daemon == {"/bin/sh"}
    assert module == {"/bin/sh", "dkms", "python3"}
    assert not re.search(r"\.so|python3dist", queried(rpms.daemon, "--provides"))


def field(package: Path, name: str) -> str:
    command = ["dpkg-deb", "--field", str(package), name]
    return subprocess.check_output(command, text=True, timeout=60).strip()


def queried(package: Path, *options: str) -> str:
    return subprocess.check_output(["rpm", "-qp", *options, str(package)], text=True, timeout=60)
