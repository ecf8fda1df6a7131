# SPDX-License-Identifier: Apache-2.0
"""Commands that cannot be carried out on the node of tests/docs: which test runs them, or why none does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class By:
    """A test that runs a command, or what is closest to it.

    words: what stands there for the command. programs: what the test calls, where the words are in that.
    how: in what the test differs, where it does.
    """

    test: str
    words: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    how: str = ""


DEB = "tests/packaging/test_deb_node.py"
UPGRADE = "tests/vm/life/test_upgrade.py"
VM_NODE = "tests/vm/harness/node.py"
APT = By(
    DEB,
    ("apt-get", '"install", f"/tmp/{packages.daemon.name}"'),
    how="installs the same file from another folder",
)
MANIFESTS = (
    "kubectl apply -f install/packaging/kubernetes/node-installer.yaml"
    " -f install/packaging/kubernetes/runtimeclass.yaml"
)
IMAGE_BUILD = (
    "podman build --build-arg VERSION=0.1.0 --tag REGISTRY/opencgpu-node:0.1.0"
    " --file install/packaging/kubernetes/Containerfile ."
)
HOOKED = (
    "podman run --annotation opencgpu.io/mem-container=6 --annotation opencgpu.io/mem-dev=15"
    " --annotation opencgpu.io/visible-devices=0 --device nvidia.com/gpu=0 IMAGE"
)

ELSEWHERE: Mapping[str, By] = {
    "make demo": By("tests/integration/test_demo.py", ('"make", "demo"',), how="with all packages there"),
    "make deb": By(
        "tests/packaging/conftest.py",
        ("scripts/build-deb",),
        programs=("tests/packages.py",),
        how="calls what the Makefile calls",
    ),
    "make deb && apt-get install ./dist/opencgpu_*_amd64.deb": APT,
    "apt-get install ./dist/opencgpu_*_amd64.deb": APT,
    "apt-get install ./dist/opencgpu_0.1.0_amd64.deb": APT,
    "apt-get install ./dist/opencgpu-dkms_0.1.0_all.deb linux-headers-amd64": By(
        DEB, ("machine.install(packages.module)", "dkms"), how="by dpkg, with dkms and headers there already"
    ),
    "make lint": By(
        "tests/test_linters.py", ("ruff", "shellcheck"), how="these are the linters that it runs"
    ),
    "make format": By(
        "tests/test_linters.py", ('"format"', "format-check"), how="checks that it would change nothing"
    ),
    "make test-gpu": By("tests/gpu/test_parts.py", ('"scripts/test-gpu"',), how="where there is no GPU"),
    "scripts/test-gpu --all reports/gpu": By(
        "tests/gpu/test_parts.py", ('"scripts/test-gpu"',), how="where there is no GPU"
    ),
    "make bench-shares": By("tests/sim/test_work_shares.py", ("program.main([])",)),
    ".venv/bin/python -m benchmarks.shares --slice 1000": By(
        "tests/sim/test_work_shares.py", ("program.main(",), how="with the default slice"
    ),
    ".venv/bin/python -m benchmarks.shares --no-controls": By(
        "tests/sim/test_work_shares.py", ("controls=False",), how="with fewer cases"
    ),
    "modprobe cgpu_km": By("tests/vm/install/test_install.py", ("modprobe", "cgpu_km")),
    "cgpu-config-apply": By("tests/vm/install/test_config_apply.py", ("cgpu-config-apply",)),
    "modprobe cgpu_core_0_1_1": By(
        UPGRADE, ("insmod", "0_1_1"), (VM_NODE,), "by insmod, before depmod knows of it"
    ),
    "cat /proc/cgpu_km/upgrade": By(UPGRADE, ('read(engine, "upgrade")',)),
    "echo 1 > /proc/cgpu_km/upgrade": By(UPGRADE, ('write(machine, "upgrade", "1")',)),
    "cat /proc/cgpu_km/version": By(UPGRADE, ('read(engine, "version")',)),
    "rmmod cgpu_core_0_1_0": By(UPGRADE, ("rmmod(engine, OLD",)),
    "cgpu check-driver && modprobe cgpu_km allow_unknown_driver=Y": By(
        "tests/vm/life/test_versions.py",
        ('allow_unknown_driver="Y"',),
        how="the module alone; the check is tests/check_driver's",
    ),
    "cgpu check-driver": By("tests/check_driver/test_run.py", ("cgpu.check_driver.main",)),
    "cgpu install --engine module": By("tests/vm/install/test_installer.py", ('"install"', '"module"')),
    "systemctl reload cgpud": By(
        "tests/daemon/test_life.py",
        ("SIGHUP",),
        how="sends the signal that the unit sends; no systemd runs there",
    ),
    "kill -HUP $(cat /run/cgpu/cgpud.pid)": By("tests/daemon/test_life.py", ("SIGHUP",)),
    HOOKED: By(
        "tests/integration/test_engine_config.py",
        ("--hooks-dir", '"--annotation", "opencgpu.io/mem-container'),
        how="with a request that the hook refuses; NVIDIA's CDI names need a card",
    ),
    IMAGE_BUILD: By(
        "tests/packaging/test_kubernetes.py",
        ("podman", '"build"', "install/packaging/kubernetes/Containerfile"),
    ),
}

CLUSTER = (
    "no Kubernetes is here; tests/packaging/test_kubernetes.py reads the manifests and runs the installer"
)
LONG = "builds or runs for longer than all that make test does"

REASONS: Mapping[str, str] = {
    "make test": "it is what runs this test",
    "make test-vm": "a part of make test",
    "make test-driver": "make test runs a part of it",
    "make test-frameworks": "downloads 3 GB",
    "make test-package": LONG,
    "make test-vm-full": LONG,
    "make test-debug-kernel": LONG,
    "make build": "has been run before any test can be",
    "apt-get update": "takes a network",
    "systemctl restart crio": "CRI-O is not packaged for Debian 12",
    "podman push REGISTRY/opencgpu-node:0.1.0": CLUSTER,
    MANIFESTS: CLUSTER,
    "kubectl label node NODE opencgpu.io/node=install": CLUSTER,
    "kubectl apply -f install/packaging/kubernetes/example-pod.yaml": CLUSTER,
    "kubectl label node NODE opencgpu.io/node=remove --overwrite": CLUSTER,
}
# So many commands of the documents have no test: whoever adds one says so here.
UNTESTED = 15
