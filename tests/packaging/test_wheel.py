# SPDX-License-Identifier: Apache-2.0
"""The wheel and the editable install, tried in fresh virtual environments."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.commands import call

COMMANDS = ("cgpu", "cgpud", "cgpu-config-apply", "cgpu-hook", "cgpu-runtime-config", "cgpu-smi")
PROGRAMS = (
    "hook/cgpu-hook",
    "kmod/build/cgpu-probe",
    "kmod/build/cgpu-probe32",
    "kmod/build/cgpu-recorder",
    "kmod/build/cgpu-sim",
    "kmod/build/libcgpu-replay.so",
    "kmod/build/libcgpud.so",
    "runtime_config/launcher/cgpu-container-runtime",
    "runtime_config/launcher/cgpu-container-runtime.low-level",
)
DATA = (
    "kmod/Makefile",
    "kmod/abi/classes.json",
    "kmod/abi/controls.json",
    "kmod/abi/nvidia.json",
    "kmod/core/include/cgpu_core.h",
    "kmod/module/dkms.conf",
    "kmod/units/cgpu-config-apply.service",
    "kmod/units/cgpud.service",
    "py.typed",
)
BARE = ("hook", "install", "kmod", "runtime_config", "tests")


def run(*command: str | Path, **environment: str) -> str:
    """Run a command outside of the checkout and return what it prints."""
    done = subprocess.run(
        command,
        cwd="/",
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, target: Path) -> Path:
    """Build a wheel, from the checkout or from an unpacked or packed sdist."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", target, source)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(repository, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("sdist")
    arguments = ("build", "--target", "sdist", "--directory", str(target))
    command = [sys.executable, "-m", "hatchling", *arguments]
    subprocess.run(command, cwd=repository, capture_output=True, timeout=280, check=True)
    (built,) = target.glob("*.tar.gz")
    return built


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """Make a fresh virtual environment and return its folder of programs."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    return tmp_path / "venv" / "bin"


def site_packages(venv: Path) -> Path:
    """Return where packages go in a virtual environment."""
    return Path(run(venv / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def is_reachable(venv: Path, module: str) -> bool:
    """Say whether a top-level module can be found."""
    found = f"import importlib.util; print(importlib.util.find_spec('{module}') is not None)"
    return run(venv / "python", "-I", "-c", found).strip() == "True"


def test_wheel_content(wheel: Path) -> None:
    """The wheel is for this platform and holds the package, its programs and no leftovers of a build."""
    assert wheel.name.startswith("opencgpu-0.1.0-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    top = {name.split("/")[0] for name in modes}
    assert top == {"cgpu", "opencgpu-0.1.0.dist-info"}
    assert [name for name in modes if name.endswith((".o", ".d", ".a", ".pyc"))] == []
    assert not {f"cgpu/{name}" for name in (*PROGRAMS, *DATA)} - modes.keys()
    assert [name for name in PROGRAMS if not modes[f"cgpu/{name}"] & 0o100] == []


def dkms_source(module: Path, target: Path) -> dict[str, bytes]:
    """Return the files that dkms is given, by the Makefile of a module's folder."""
    run("make", "-s", "-C", module, "dkms-source", f"DESTDIR={target}")
    files = (path for path in target.rglob("*") if path.is_file())
    return {str(path.relative_to(target)): path.read_bytes() for path in files}


def test_module_sources(wheel: Path, repository: Path, tmp_path: Path) -> None:
    """What dkms builds the module from is the same out of an installed wheel as out of the checkout."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    shipped = dkms_source(tmp_path / "wheel/cgpu/kmod/module", tmp_path / "shipped")
    assert shipped == dkms_source(repository / "kmod/module", tmp_path / "checkout")
    assert "usr/src/opencgpu-0.1.0/dkms.conf" in shipped
    assert len(shipped) > 80


def test_missing_compiler(repository: Path, tmp_path: Path) -> None:
    """Without a compiler pip says in one line what to install, and shows no traceback."""
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [*pip, str(repository)], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert (
        "opencgpu: to build its C parts make, gcc, pkg-config: not there; on Debian 12: apt-get install"
        in said
    )
    assert "Traceback" not in said


@pytest.mark.slow
def test_sdist(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """A wheel built from the source distribution holds the same files as one built from the checkout."""
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(build(sdist, tmp_path)) as theirs:
        assert set(ours.namelist()) == set(theirs.namelist())


@pytest.mark.slow
def test_install(wheel: Path, venv: Path) -> None:
    """An installed wheel gives the commands and the programs, and takes no other name in site-packages."""
    run(venv / "pip", "install", "--quiet", wheel)
    packages = site_packages(venv)
    assert not {path.name for path in packages.iterdir()} & set(BARE)
    assert [name for name in BARE if is_reachable(venv, name)] == []
    for command in ("cgpu", "cgpu-smi", "cgpud", "cgpu-runtime-config", "cgpu-config-apply"):
        assert command in run(venv / command, "--help")
    assert [name for name in COMMANDS if not os.access(venv / name, os.X_OK)] == []
    assert [name for name in PROGRAMS if not os.access(packages / "cgpu" / name, os.X_OK)] == []
    hook = call([packages / "cgpu/hook/cgpu-hook"])
    assert hook.stderr.startswith("cgpu-hook: stage ")
    run(venv / "python", "-c", f"import ctypes; ctypes.CDLL('{packages}/cgpu/kmod/build/libcgpud.so')")


@pytest.mark.slow
def test_editable_install(repository: Path, venv: Path) -> None:
    """An editable install imports the checkout's files, and refuses its folders as packages of their own."""
    # Built beforehand by scripts/bootstrap; this test is about imports.
    pip = (venv / "pip", "install", "--quiet", "--no-deps", "--editable")
    run(*pip, repository, HATCH_BUILD_NO_HOOKS="true")
    shown = run(venv / "python", "-I", "-c", "import cgpu.hook; print(cgpu.hook.__file__)")
    assert Path(shown.strip()).resolve() == repository / "hook" / "__init__.py"
    bare = call([venv / "python", "-I", "-c", "import hook"])
    assert "ImportError: import this package as cgpu.hook" in bare.stderr
