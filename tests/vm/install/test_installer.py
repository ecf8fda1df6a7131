# SPDX-License-Identifier: Apache-2.0
"""cgpu install with the kernel module: built by dkms, loaded, used, and taken back.

An emulated machine compiles for a quarter of an hour. So what dkms has built on the host is in its tree
already, but for full counts; dkms, depmod and modprobe are real in any case.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.probe import step
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.harness.bundles import Containers
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import keep_few_modules, loaded
from tests.vm.harness.store import ROOT

CGPU = Path(sys.executable).parent / "cgpu"
VERSION = "0.1.0"
BUILD_S = count(600, 3600)
# Names, modes, links and times of all files that an installation of the module may touch. The key that dkms
# makes to sign with is its own, and stays. The kernel's modules are many, and compared by their names, as are
# others' sources.
STATE = """
ls /usr/src
places="/etc /usr/src/opencgpu* /var/lib/dkms /var/lib/cgpu"
find $places ! -type d ! -name 'mok.*' -exec ls -ld --full-time {} + 2>/dev/null || :
find $places ! -name 'mok.*' 2>/dev/null | sort
find "/lib/modules/$(uname -r)/" | sort
grep -h cgpu "/lib/modules/$(uname -r)/"modules.* || :
"""
SEED = """
mkdir -p /var/lib/dkms
cp -a "$1/opencgpu" /var/lib/dkms/
ln -sfn "/usr/src/opencgpu-$2" "/var/lib/dkms/opencgpu/$2/source"
"""


def state(machine: Machine) -> list[str]:
    return machine.run(["/bin/bash", "-c", STATE], timeout=120).stdout.splitlines()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a tree of dkms with the module built for the kernel of the machine."""
    folder = tmp_path_factory.mktemp("dkms")
    make = ["make", "-s", "-C", str(ROOT / "kmod/module"), "dkms-source", f"DESTDIR={folder}"]
    subprocess.run(make, check=True, timeout=60)
    (folder / "tree").mkdir()
    places = ["--dkmstree", str(folder / "tree"), "--sourcetree", str(folder / "usr/src")]
    release = request.getfixturevalue("kernel").release
    build = ["dkms", "build", *places, "-m", "opencgpu", "-v", VERSION, "-k", release]
    subprocess.run(build, check=True, cwd="/", capture_output=True, timeout=280)
    return folder / "tree"


@pytest.fixture
def few_modules(machine: Machine, request: pytest.FixtureRequest) -> Iterator[None]:
    """Have few of the kernel's modules, and what dkms has built; but for full counts."""
    if not count(True, False):
        yield
        return
    keep_few_modules(machine)
    try:
        # dkms would remove these folders with the last module in them.
        machine.shell('cd "/lib/modules/$(uname -r)" && rmdir updates/dkms updates')
        machine.shell(SEED, machine.seen(request.getfixturevalue("built")), VERSION)
        yield
    finally:
        machine.shell('umount "/lib/modules/$(uname -r)"')


@pytest.fixture
def node(few_modules: None, driver: Machine) -> Machine:
    """Return the machine as an administrator finds it who has installed NVIDIA's driver."""
    return driver


@pytest.mark.slow
@pytest.mark.dkms
@pytest.mark.timeout(2 * BUILD_S)
def test_the_module_and_back(node: Machine, containers: Containers) -> None:
    """The module is installed, loaded and configured, and slices; after uninstall nothing of it is left."""
    before = [line for line in state(node) if "/dkms/opencgpu" not in line]
    said = node.run([CGPU, "install", "--engine", "auto", "--runtimes", "podman"], timeout=BUILD_S)
    assert "engine: module; runtimes: podman" in said.stdout
    assert {"cgpu_km", "cgpu_core_0_1_0"} <= set(loaded(node))
    assert node.read_file("/sys/module/cgpu_km/parameters/configured") == b"Y\n"
    softdep = node.run(["modinfo", "-F", "softdep", "cgpu_km"]).stdout
    assert softdep.split() == ["pre:", "nvidia", "nvidia-uvm", "post:", "cgpu_core_0_1_0"]
    seen = step(containers.run(["/cgpu-probe", "info"], SLICE), "info")
    assert seen.number("total") == LIMIT
    again = node.run([CGPU, "install", "--runtimes", "podman"], timeout=120)
    assert "nothing to change" in again.stdout
    undone = node.run([CGPU, "uninstall"], timeout=BUILD_S)
    assert "what cgpu install has done is undone" in undone.stdout
    assert not [name for name in loaded(node) if name.startswith("cgpu")]
    assert "nvidia" in loaded(node)
    assert state(node) == before
