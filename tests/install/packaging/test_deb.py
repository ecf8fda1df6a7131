# SPDX-License-Identifier: Apache-2.0
"""The contents of the Debian packages."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cgpu import __version__
from tests.packages import Packages

UNCHECKED = (1).to_bytes(4, "little")


@pytest.fixture(scope="module")
def tree(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(packages.daemon, tmp_path_factory.mktemp("opencgpu"))


def unpacked(package: Path, target: Path) -> Path:
    subprocess.run(["dpkg-deb", "--extract", str(package), str(target)], check=True, timeout=60)
    return target


def locked(repository: Path) -> dict[str, str]:
    """Return name and version of each package that is brought along."""
    lines = (repository / "install/packaging/bundled.txt").read_text().splitlines()
    pairs = [line.split(" ")[0].split("==") for line in lines if not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def test_lintian(packages: Packages) -> None:
    """Lintian finds no error and no warning."""
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed; run: scripts/bootstrap test")
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", *map(str, packages)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_commands(tree: Path, repository: Path) -> None:
    """Every command of the distribution is there, and the runtime beside them."""
    scripts = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["scripts"]
    found = sorted(path.name for path in (tree / "usr/bin").iterdir())
    assert found == sorted([*scripts, "cgpu-container-runtime"])
    for name in ("cgpu-hook", "cgpu-container-runtime"):
        assert Path(tree, "usr/bin", name).resolve(strict=True).stat().st_mode & 0o111 == 0o111
    runtime = tree / "usr/lib/opencgpu/cgpu/runtime_config/launcher/cgpu-container-runtime"
    assert runtime.with_name(f"{runtime.name}.low-level").readlink() == Path(runtime.name)


def test_places(tree: Path) -> None:
    """Nothing is in Python's own folders, in /etc or in /usr/local."""
    tops = {str(path.relative_to(tree)) for path in (*tree.glob("*/*"), *tree.glob("usr/*/*"))}
    assert {top for top in tops if not top.startswith(("usr/bin", "usr/share"))} == {
        "lib/systemd",
        "usr/lib",
        "usr/lib/opencgpu",
    }


def test_unit(tree: Path, repository: Path) -> None:
    """Every unit of the project is in the package, and starts a command of it."""
    for unit in (repository / "kmod/units").iterdir():
        assert (tree / "lib/systemd/system" / unit.name).exists()
    units = sorted((repository / "kmod/units").glob("*.service"))
    assert units
    for unit in units:
        text = (tree / "lib/systemd/system" / unit.name).read_text()
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
    folders = {path.name: path for path in (tree / "usr/lib/opencgpu").glob("*.dist-info")}
    found = dict(name.removesuffix(".dist-info").rsplit("-", 1) for name in folders)
    names = {name.lower().replace("_", "-"): version for name, version in found.items()}
    assert names.pop("opencgpu")
    assert names == locked(repository)
    bare = [
        name for name, path in folders.items() if not [*path.glob("**/LICEN*"), *path.glob("**/COPYING*")]
    ]
    copyright_file = (tree / "usr/share/doc/opencgpu/copyright").read_text()
    assert bare == []
    assert [name for name in locked(repository) if name not in copyright_file.lower().replace("_", "-")] == []


def test_bytecode(tree: Path) -> None:
    """Every module has bytecode that is of its source and is not checked against it when it is imported."""
    sources = list((tree / "usr/lib/opencgpu").rglob("*.py"))
    assert len(sources) > 100
    for source in sources:
        name = f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        compiled = (source.parent / "__pycache__" / name).read_bytes()
        assert compiled[4:8] == UNCHECKED
        assert compiled[8:16] == importlib.util.source_hash(source.read_bytes())


def test_no_sources_of_programs(tree: Path) -> None:
    """The daemon's package has no sources of programs or of the module."""
    names = [path.name for path in (tree / "usr/lib/opencgpu").rglob("*")]
    assert [name for name in names if name.endswith((".c", ".h", ".o")) or name == "Makefile"] == []


def test_module_sources(packages: Packages, repository: Path, tmp_path: Path) -> None:
    """The other package has what `make dkms-source` makes, to the byte."""
    tree = unpacked(packages.module, tmp_path / "package")
    command = ["make", "-C", f"{repository}/kmod/module", "dkms-source", f"DESTDIR={tmp_path}/made"]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    compare = ["diff", "-r", f"{tree}/usr/src", f"{tmp_path}/made/usr/src"]
    done = subprocess.run(compare, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_depends(packages: Packages) -> None:
    """The daemon's package asks for the Python of its bytecode and for no compiler; the module's for dkms."""
    fields = {name: field(package, "Depends") for name, package in packages._asdict().items()}
    minor = sys.version_info.minor
    assert f"python3 (>= 3.{minor}~), python3 (<< 3.{minor + 1}~)" in fields["daemon"]
    assert not re.search(r"\b(gcc|make|dkms|linux-headers)\b(?!-)", fields["daemon"])
    assert re.search(r"\bdkms\b", fields["module"])


def test_version(packages: Packages) -> None:
    """The version says for which Debian a package is; that of the next Debian is newer."""
    versions = {field(package, "Version").strip() for package in packages}
    (version,) = versions
    number = re.fullmatch(rf"{re.escape(__version__)}\+deb(\d+)", version)
    assert number
    assert Path("/etc/debian_version").read_text().startswith((f"{number[1]}.", "forky", "duke"))
    later = f"{__version__}+deb{int(number[1]) + 1}"
    subprocess.run(["dpkg", "--compare-versions", version, "lt", later], check=True, timeout=60)


def field(package: Path, name: str) -> str:
    command = ["dpkg-deb", "--field", str(package), name]
    return subprocess.check_output(command, text=True, timeout=60)
