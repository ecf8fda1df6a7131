# SPDX-License-Identifier: Apache-2.0
"""The rpm packages, installed, used and removed by rpm, with their scriptlets, on a copy of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install.packaging.machine import Machine
from tests.install.packaging.test_deb_node import PROBE, assert_refused, lasting_slice, pid_of
from tests.packages import Packages

# The first test builds the packages.
pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1200)]

# Debian's own packages have what ours require, and rpm does not know them.
RPM = ("rpm", "--dbpath", "/tmp/rpm", "--nodeps")


def install(machine: Machine, package: Path, *options: str) -> str:
    shutil.copy(package, machine.path("tmp"))
    return machine.run(*RPM, "--upgrade", *options, f"/tmp/{package.name}")


def remove(machine: Machine, name: str = "opencgpu") -> subprocess.CompletedProcess[str]:
    return machine.attempt(*RPM, "--erase", name)


@pytest.fixture(scope="module")
def rpm_node(rpms: Packages) -> Iterator[Machine]:
    """Make a machine that has the package opencgpu."""
    made = Machine()
    install(made, rpms.daemon)
    yield made
    made.end()


@pytest.fixture
def engine(rpm_node: Machine) -> Iterator[Machine]:
    """Run cgpud with a simulated card."""
    rpm_node.run("cgpud", "--simulate", "T4")
    yield rpm_node
    rpm_node.attempt("cgpud", "--stop", "--force")


def test_nothing_left(rpms: Packages, machine: Machine) -> None:
    """The installation starts nothing; after use and removal nothing is left, but what somebody wrote."""
    install(machine, rpms.daemon)
    assert not machine.path("/run/cgpu").exists()
    assert [name for name in machine.changes() if name.startswith("etc/")] == []
    machine.run("cgpud", "--simulate", "T4")
    assert "total=1073741824 " in machine.run("cgpu", "run", "--mem", "1G", "--", PROBE, "info")
    machine.run("cgpu-smi")
    assert machine.run("kubectl-inspect-cgpu", "--help").startswith("usage: kubectl-inspect-cgpu ")
    assert machine.run(*RPM, "--verify", "opencgpu") == ""
    machine.run("mkdir", "-p", "/etc/cgpu", "/var/lib/cgpu/install")
    machine.path("/etc/cgpu/config.yaml").write_text("policy: 2\n")
    assert remove(machine).returncode == 0
    assert not machine.path("/run/cgpu/control.sock").exists()
    assert machine.changes() == ["etc/cgpu", "etc/cgpu/config.yaml"]


def test_beside_a_slice(rpms: Packages, engine: Machine) -> None:
    """While a slice is in use the package stays; a new one leaves engine and slices alone."""
    before = pid_of(engine)
    with lasting_slice(engine) as process:
        done = remove(engine)
        said = install(engine, rpms.daemon, "--force")
        still = process.poll()
    assert_refused(done, "1 slices are in use; stop their containers: cgpu-smi")
    assert "to exchange it: cgpu upgrade" in said
    assert pid_of(engine) == before
    assert still is None
    assert engine.run(*RPM, "--verify", "opencgpu") == ""


def test_module_package(rpms: Packages, machine: Machine) -> None:
    """The module's package gives its sources to dkms, again at each installation, and takes them back."""
    # Without kernels there is nothing to build; tests/module builds the same sources.
    machine.run("mount", "-t", "tmpfs", "tmpfs", "/lib/modules")
    for options in ((), ("--force",)):
        install(machine, rpms.module, *options)
        assert machine.run("dkms", "status", "opencgpu").startswith("opencgpu/0.1.0: added")
    assert remove(machine, "opencgpu-dkms").returncode == 0
    assert machine.changes() == []
