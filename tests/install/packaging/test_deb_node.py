# SPDX-License-Identifier: Apache-2.0
"""The Debian packages, really installed, used and removed on a copy of this machine."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.install.packaging.machine import Machine
from tests.packages import Packages

# The first test builds the packages.
pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1200)]

FOLDER = "/usr/lib/opencgpu"
PYTHON = f"{FOLDER}/bin/python3"
PROBE = f"{FOLDER}/lib/bundle/cgpu/kmod/build/cgpu-probe"
DAEMON_JSON = "/etc/docker/daemon.json"


@pytest.fixture
def engine(node: Machine) -> Iterator[Machine]:
    """Run cgpud with a simulated card."""
    node.run("cgpud", "--simulate", "T4")
    yield node
    node.attempt("cgpud", "--stop", "--force")


@pytest.fixture
def sliced(engine: Machine) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a slice that lasts."""
    with lasting_slice(engine) as process:
        yield process


@contextlib.contextmanager
def lasting_slice(machine: Machine) -> Iterator[subprocess.Popen[str]]:
    """Run such a command where an engine runs."""
    process = machine.start(
        "cgpu", "run", "--mem", "1G", "--", "/bin/sh", "-c", "echo started; exec sleep 200"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    yield process
    process.terminate()
    process.communicate()


def assert_refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    """Fail unless a removal was refused, with this reason."""
    assert done.returncode != 0
    assert f"opencgpu: not removed: {why}" in done.stdout


def pid_of(machine: Machine) -> int:
    return int(json.loads(machine.run("cgpud", "--status"))["pid"])


def test_nothing_left(packages: Packages, machine: Machine) -> None:
    """Nothing is left after use and removal."""
    shutil.copy(packages.daemon, machine.path("tmp"))
    machine.run("apt-get", "-q", "-y", "install", f"/tmp/{packages.daemon.name}")
    machine.run("cgpud", "--simulate", "T4")
    run = ("cgpu", "run", "--mem", "1G", "--", PROBE)
    assert "total=1073741824 " in machine.run(*run, "info")
    assert "status=0x51" in machine.attempt(*run, "alloc=1025M").stdout
    machine.run("cgpu-smi")
    assert machine.remove("opencgpu").returncode == 0
    assert not machine.path("/run/cgpu/control.sock").exists()
    assert machine.changes() == []


def test_purge_keeps_what_somebody_wrote(packages: Packages, machine: Machine) -> None:
    """The installation starts nothing and writes nothing to /etc; a purge leaves what somebody wrote."""
    machine.install(packages.daemon)
    assert not machine.path("/run/cgpu").exists()
    changed = machine.changes()
    assert "usr/bin/cgpu" in changed
    assert [name for name in changed if name.startswith("etc/")] == []
    machine.run("mkdir", "-p", "/etc/cgpu", "/var/lib/cgpu/install")
    machine.path("/etc/cgpu/config.yaml").write_text("policy: 2\n")
    assert machine.remove("opencgpu", purge=True).returncode == 0
    assert machine.changes() == ["etc/cgpu", "etc/cgpu/config.yaml"]


def test_isolated(node: Machine) -> None:
    """Neither Python's variables nor modules in the caller's folder change what a command runs."""
    node.run("mkdir", "-p", "/tmp/evil/cgpu")
    node.path("/tmp/evil/cgpu/__init__.py").write_text("raise SystemExit('evil')")
    node.path("/tmp/evil/sitecustomize.py").write_text("raise SystemExit('evil')")
    hostile = {"PYTHONPATH": "/tmp/evil", "PYTHONSTARTUP": "/tmp/evil/sitecustomize.py", "PYTHONHOME": "/tmp"}
    for command in ("cgpu", "cgpud", "cgpu-smi", "cgpu-config-apply"):
        shown = node.run(command, "--version", cwd="/tmp/evil", **hostile)
        assert shown.startswith(f"{command} ")


def test_no_site_packages(node: Machine) -> None:
    """Neither a command nor the daemon runs the .pth files of other packages' Python modules."""
    folder = node.path("/usr/local/lib/python3.11/dist-packages")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "marker.pth").write_text("import os; open('/tmp/marker', 'w').close()\n")
    node.run("/usr/bin/python3", "-c", "0")
    marker = node.path("/tmp/marker")
    marker.unlink()
    node.run("cgpud", "--simulate", "T4")
    node.run("cgpu-smi")
    node.run("cgpu", "run", "--mem", "1G", "--", PROBE, "info")
    node.run("cgpud", "--stop")
    (folder / "marker.pth").unlink()
    assert not marker.exists()


def test_bytecode_is_used(node: Machine) -> None:
    """The hook runs from the package's bytecode, every module of it."""
    start = f"{FOLDER}/lib/bundle/cgpu/hook/start.py"
    verbose = node.attempt(PYTHON, "-ISv", start, "poststop").stdout
    compiled = [line for line in verbose.splitlines() if line.startswith(f"# code object from '{FOLDER}")]
    assert len(compiled) > 10
    assert [line for line in compiled if not line.endswith(".pyc'")] == []


def test_files_are_the_packages(engine: Machine) -> None:
    """Use changes no file of the package and adds none beside them."""
    engine.run("cgpu", "run", "--mem", "1G", "--", PROBE, "info")
    assert engine.run("dpkg", "--verify", "opencgpu") == ""
    owned = set(engine.run("dpkg", "--listfiles", "opencgpu").split("\n"))
    found = engine.run("find", FOLDER).split()
    assert [name for name in found if name not in owned] == []


def test_beside_a_slice(packages: Packages, engine: Machine, sliced: subprocess.Popen[str]) -> None:
    """While a slice is in use the package stays; one that is newly installed leaves engine and slices alone.

    The new package says how to exchange the engine.
    """
    assert_refused(engine.remove("opencgpu"), "1 slices are in use; stop their containers: cgpu-smi")
    assert sliced.poll() is None
    assert engine.run("dpkg", "--verify", "opencgpu") == ""
    before = pid_of(engine)
    assert "to exchange it: cgpu upgrade" in engine.install(packages.daemon)
    assert pid_of(engine) == before
    assert sliced.poll() is None


def test_removal_refused_without_python(engine: Machine, sliced: subprocess.Popen[str]) -> None:
    """Slices in the usual tree are seen also where Python cannot say which one is in use."""
    python = engine.path(f"{FOLDER}/lib/programs/python3")
    python.rename(python.with_name("away"))
    done = engine.remove("opencgpu")
    python.with_name("away").rename(python)
    assert_refused(done, "1 slices are in use")
    assert sliced.poll() is None


def test_removal_refused_by_a_tree_elsewhere(node: Machine) -> None:
    """Slices are seen where the configuration in force has the tree."""
    node.run("cgpud", "--simulate", "T4", "--tree", "/run/gpus")
    with lasting_slice(node) as process:
        done = node.remove("opencgpu")
        still = process.poll()
    node.run("cgpud", "--stop", "--force")
    assert_refused(done, "1 slices are in use")
    assert still is None


def test_removal_refused_by_settings(node: Machine) -> None:
    """While a container engine names the runtime the package stays."""
    node.run("cgpu-runtime-config", "docker")
    done = node.remove("opencgpu")
    node.run("cgpu-runtime-config", "docker", "--remove")
    assert_refused(done, f"{DAEMON_JSON} name its runtime; take it out: cgpu-runtime-config ENGINE")


def test_removal_takes_the_node_back(packages: Packages, machine: Machine) -> None:
    """Where the node was set up, removal calls `cgpu uninstall`, and does not go on when that fails."""
    machine.install(packages.daemon)
    machine.run("mkdir", "-p", "/var/lib/cgpu/install")
    machine.path("/var/lib/cgpu/install/record.json").write_text("this is no record\n")
    why = "the node is still set up; see above, then: cgpu uninstall"
    assert_refused(machine.remove("opencgpu"), why)
    machine.path("/var/lib/cgpu/install/record.json").unlink()
    machine.run("cgpu", "install", "--engine", "daemon", "--runtimes", "docker")
    assert "/usr/lib/opencgpu/" in machine.path(DAEMON_JSON).read_text()
    assert machine.remove("opencgpu").returncode == 0
    assert [name for name in machine.changes() if name.startswith("etc/")] == []


def test_module_package(packages: Packages, machine: Machine) -> None:
    """The module's package gives its sources to dkms, and takes them back."""
    # Without kernels there is nothing to build; tests/module builds the same sources.
    machine.run("mount", "-t", "tmpfs", "tmpfs", "/lib/modules")
    machine.install(packages.module)
    assert machine.run("dkms", "status", "opencgpu").startswith("opencgpu/0.1.0: added")
    assert machine.remove("opencgpu-dkms", purge=True).returncode == 0
    assert machine.changes() == []
