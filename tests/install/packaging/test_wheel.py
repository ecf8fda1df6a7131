# SPDX-License-Identifier: Apache-2.0
"""The wheel, the source distribution and the editable install, in fresh virtual environments."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.integration.commands import call

PROGRAMS = (
    "hook/cgpu-hook",
    "kmod/build/cgpu-probe",
    "kmod/build/cgpu-probe32",
    "kmod/build/cgpu-sim",
    "kmod/build/libcgpud.so",
    "runtime_config/launcher/cgpu-container-runtime",
    "runtime_config/launcher/cgpu-container-runtime.low-level",
)
DATA = (
    "hook/start.py",
    "kmod/Makefile",
    "kmod/abi/classes.json",
    "kmod/abi/controls.json",
    "kmod/abi/nvidia.json",
    "kmod/core/include/cgpu_core.h",
    "kmod/module/dkms.conf",
    "py.typed",
)
# Folders of the checkout that no installation may make importable as top-level packages.
CHECKOUT_FOLDERS = ("hook", "install", "kmod", "runtime_config", "tests")


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
    """Build a wheel from the checkout or from an sdist, and return its path."""
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
    """Make a fresh virtual environment and return its bin folder."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    return tmp_path / "venv" / "bin"


def site_packages(venv: Path) -> Path:
    """Return the site-packages folder of a virtual environment."""
    return Path(run(venv / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def is_importable(venv: Path, module: str) -> bool:
    """Tell whether the Python of a virtual environment finds a top-level module."""
    script = f"import importlib.util; print(importlib.util.find_spec('{module}') is not None)"
    return run(venv / "python", "-I", "-c", script).strip() == "True"


def test_wheel_content(wheel: Path, repository: Path) -> None:
    """The wheel is for this platform and has the package, its programs and data, and no files of a build."""
    assert wheel.name.startswith("opencgpu-0.1.0-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    top_level = {name.split("/")[0] for name in modes}
    # The last of them has the manual pages.
    assert top_level == {"cgpu", "opencgpu-0.1.0.dist-info", "opencgpu-0.1.0.data"}
    assert [name for name in modes if name.endswith((".o", ".d", ".a", ".pyc"))] == []
    units = (f"kmod/units/{path.name}" for path in (repository / "kmod/units").iterdir())
    assert not {f"cgpu/{name}" for name in (*PROGRAMS, *DATA, *units)} - modes.keys()
    assert [name for name in PROGRAMS if not modes[f"cgpu/{name}"] & 0o100] == []


def dkms_source(module: Path, target: Path) -> dict[str, bytes]:
    """Return the files that a module's `make dkms-source` installs for dkms, by path."""
    run("make", "-s", "-C", module, "dkms-source", f"DESTDIR={target}")
    files = (path for path in target.rglob("*") if path.is_file())
    return {str(path.relative_to(target)): path.read_bytes() for path in files}


def test_module_sources(wheel: Path, repository: Path, tmp_path: Path) -> None:
    """dkms gets the same module sources from the wheel as from the checkout."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    shipped = dkms_source(tmp_path / "wheel/cgpu/kmod/module", tmp_path / "shipped")
    assert shipped == dkms_source(repository / "kmod/module", tmp_path / "checkout")
    assert "usr/src/opencgpu-0.1.0/dkms.conf" in shipped
    assert len(shipped) > 80


def test_missing_compiler(repository: Path, tmp_path: Path) -> None:
    """Without a compiler pip prints one line that names the packages to install, and no traceback."""
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [*pip, str(repository)], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    printed = done.stdout + done.stderr
    assert (
        "opencgpu: to build its C parts make, gcc, pkg-config: not there; on Debian: apt-get install"
        in printed
    )
    assert "Traceback" not in printed


@pytest.mark.parametrize(("value", "expected"), [("", True), ("1", False)])
def test_without_32_bit(repository: Path, value: str, *, expected: bool) -> None:
    """On request nothing is compiled for 32 bit: RHEL 10 has no libraries for it."""
    shown = run("make", "--dry-run", "--always-make", "-C", repository / "kmod", CGPU_WITHOUT_32_BIT=value)
    assert (" -m32 " in shown) == expected
    assert "cgpu-check-driver" in shown


@pytest.mark.slow
def test_sdist(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """A wheel built from the source distribution holds the same files as one built from the checkout."""
    with zipfile.ZipFile(wheel) as from_checkout, zipfile.ZipFile(build(sdist, tmp_path)) as from_sdist:
        assert set(from_checkout.namelist()) == set(from_sdist.namelist())


@pytest.mark.slow
def test_install(repository: Path, wheel: Path, venv: Path) -> None:
    """An installed wheel has its commands and programs, and no checkout folder is a top-level package."""
    run(venv / "pip", "install", "--quiet", wheel)
    packages = site_packages(venv)
    assert not {path.name for path in packages.iterdir()} & set(CHECKOUT_FOLDERS)
    assert [name for name in CHECKOUT_FOLDERS if is_importable(venv, name)] == []
    for command in ("cgpu", "cgpu-smi", "cgpud", "cgpu-runtime-config", "cgpu-config-apply"):
        assert command in run(venv / command, "--help")
    scripts = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["scripts"]
    assert [name for name in scripts if not os.access(venv / name, os.X_OK)] == []
    plugin = call([venv / "kubectl-inspect-cgpu"])
    assert (plugin.returncode, plugin.stdout) == (1, "")
    assert plugin.stderr.startswith("kubectl-inspect-cgpu: the Python library ")
    assert plugin.stderr.endswith("install: pip install 'opencgpu[kubectl]'\n")
    assert [name for name in PROGRAMS if not os.access(packages / "cgpu" / name, os.X_OK)] == []
    manuals = {path.name for path in (venv.parent / "share/man").glob("man*/*")}
    assert {"cgpu.1", "cgpu-config.yaml.5", "cgpud.8"} <= manuals
    assert len(manuals) == len(list((repository / "docs/man").glob("*.md")))
    hook = call([packages / "cgpu/hook/cgpu-hook"])
    assert hook.stderr.startswith("opencgpu: stage ")
    run(venv / "python", "-c", f"import ctypes; ctypes.CDLL('{packages}/cgpu/kmod/build/libcgpud.so')")


@pytest.mark.slow
def test_editable_install(repository: Path, venv: Path) -> None:
    """An editable install imports cgpu.hook from the checkout; `import hook` is refused."""
    # No build of the C programs: scripts/bootstrap has built them, and this test is about imports.
    pip = (venv / "pip", "install", "--quiet", "--no-deps", "--editable")
    run(*pip, repository, HATCH_BUILD_NO_HOOKS="true")
    shown = run(venv / "python", "-I", "-c", "import cgpu.hook; print(cgpu.hook.__file__)")
    assert Path(shown.strip()).resolve() == repository / "hook" / "__init__.py"
    refused = call([venv / "python", "-I", "-c", "import hook"])
    assert "ImportError: import this package as cgpu.hook" in refused.stderr
