# SPDX-License-Identifier: Apache-2.0
"""The manifests for Kubernetes, the image, and the node installer run against a copy of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from cgpu import __version__
from cgpu.runtime_config.engines.engine import RUNTIME_NAME
from tests.install.packaging.machine import Machine
from tests.packages import Packages

LABEL = "opencgpu.io/node"
CALLS = "/tmp/calls"
GZIP = b"\x1f\x8b"
# The commands have tests of their own; these tests check that they are called, in order, on the node.
RECORDER = f"""#!/bin/sh
echo "$*" >>{CALLS}
env >{CALLS}.environment
case $1 in
install) mkdir -p /var/lib/cgpu/install && touch /var/lib/cgpu/install/record ;;
uninstall) rm -r /var/lib/cgpu ;;
esac
"""


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "install/packaging/kubernetes"


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]


def daemon_sets(folder: Path) -> dict[str, dict[str, Any]]:
    made = documents(folder / "node-installer.yaml")
    return {one["metadata"]["name"]: one for one in made if one["kind"] == "DaemonSet"}


def test_version_of_the_chart(folder: Path) -> None:
    """The chart has the version of the project, by which it names its images."""
    (found,) = documents(folder / "chart/Chart.yaml")
    assert (found["version"], found["appVersion"]) == (__version__, __version__)


def test_runtime_class(folder: Path) -> None:
    """The RuntimeClass names containerd's handler, on nodes that are set up."""
    (found,) = documents(folder / "runtimeclass.yaml")
    assert (found["apiVersion"], found["kind"]) == ("node.k8s.io/v1", "RuntimeClass")
    assert found["handler"] == RUNTIME_NAME
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", found["handler"])
    assert found["scheduling"]["nodeSelector"] == {LABEL: "install"}
    (pod,) = documents(folder / "example-pod.yaml")
    assert pod["spec"]["runtimeClassName"] == found["metadata"]["name"]
    assert all(isinstance(one["value"], str) for one in pod["spec"]["containers"][0]["env"])


def test_daemon_sets(folder: Path) -> None:
    """Installer and remover run on nodes by a label's value, with the rights that other namespaces take."""
    found = daemon_sets(folder)
    selected = {name: one["spec"]["template"]["spec"]["nodeSelector"][LABEL] for name, one in found.items()}
    assert selected == {"node-installer": "install", "node-remover": "remove"}
    for one in found.values():
        assert one["apiVersion"] == "apps/v1"
        assert one["metadata"]["namespace"] == "opencgpu"
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"] == labels
        pod = one["spec"]["template"]["spec"]
        assert pod["hostPID"] is True
        assert pod["automountServiceAccountToken"] is False
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert "volumes" not in pod
        (container,) = pod["containers"]
        assert container["securityContext"]["privileged"] is True
        assert "lifecycle" not in container
    selectors = [one["spec"]["selector"]["matchLabels"] for one in found.values()]
    assert selectors[0] != selectors[1]
    (space,) = [one for one in documents(folder / "node-installer.yaml") if one["kind"] == "Namespace"]
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_arguments(folder: Path) -> None:
    """The pods give the installer words, and variables, that it knows."""
    script = (folder / "node-installer").read_text()
    for one in daemon_sets(folder).values():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert re.search(rf"^{container['args'][0]}\)", script, re.MULTILINE)
        assert [item["name"] for item in container.get("env", []) if item["name"] not in script] == []
        assert container["image"].endswith(f":{__version__}")


def test_lock(folder: Path, repository: Path) -> None:
    """The image has each library that a cluster needs, by its hash; if not, run: scripts/lock-bundled."""
    lines = [one for one in (folder / "bundled.txt").read_text().splitlines() if not one.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", one) for one in lines)
    pinned = dict(one.split(" ")[0].lower().replace("_", "-").split("==") for one in lines)
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for one in map(Requirement, (*extras["kubernetes"], *extras["kubectl"])):
        # One extra names the other.
        assert one.name == "opencgpu" or one.specifier.contains(pinned[one.name.lower()]), one
    assert "pip" in pinned


@pytest.fixture
def runroot() -> Iterator[Path]:
    """A folder for podman, which takes a path of at most 50 characters."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.root
@pytest.mark.slow
def test_image(packages: Packages, folder: Path, tmp_path: Path, runroot: Path) -> None:
    """The image has both packages and the installer, which it starts."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed; run: scripts/bootstrap test")
    context = tmp_path / "context"
    (context / "dist").mkdir(parents=True)
    for package in packages:
        shutil.copy(package, context / "dist")
    shutil.copytree(folder, context / "install/packaging/kubernetes")
    places = ["--root", tmp_path / "store", "--runroot", runroot]
    podman = ["podman", *places, "--storage-driver", "vfs"]
    version = packages.daemon.name.split("_")[1]
    arguments = ["--build-arg", "BASE=scratch", "--build-arg", f"VERSION={version}", "--target", "installer"]
    file = "install/packaging/kubernetes/Containerfile"
    run(*podman, "build", *arguments, "--tag", "node", "--file", file, ".", cwd=context)
    form = "{{.Config.Entrypoint}} {{.Config.Cmd}}"
    assert run(*podman, "inspect", "--format", form, "node") == "[/usr/local/bin/node-installer] [install]\n"
    run(*podman, "save", "--format", "oci-dir", "--output", tmp_path / "image", "node")
    blobs = [path for path in (tmp_path / "image").rglob("*") if path.is_file()]
    listed = "".join(run("tar", "-tzvf", path) for path in blobs if path.read_bytes().startswith(GZIP))
    assert re.search(r"^-rwxr-xr-x .* usr/local/bin/node-installer$", listed, re.MULTILINE)
    assert "opt/opencgpu/opencgpu.deb" in listed
    assert "opt/opencgpu/opencgpu-dkms.deb" in listed


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command that has to succeed and return what it prints."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


class Pod:
    """Runs the installer as a pod on a node would."""

    def __init__(self, node: Machine, script: Path, packages: Path) -> None:
        """Make a node whose `cgpu` says how it was called."""
        self.node = node
        self.packages = packages
        self.script = script
        recorder = node.path("/usr/local/bin/cgpu")
        recorder.write_text(RECORDER)
        recorder.chmod(0o755)

    def run(self, word: str, **variables: str) -> subprocess.CompletedProcess[str]:
        own = {
            "CGPU_NODE_PID": str(self.node.pid),
            "CGPU_PACKAGES": str(self.packages),
            "CGPU_WAIT": "echo waits",
        }
        return subprocess.run(
            [self.script, word],
            env=os.environ | own | {"OF_THE_POD": "1"} | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )

    @property
    def version(self) -> str:
        """The version of the package, as it was made."""
        return run("dpkg-deb", "--field", self.packages / "opencgpu.deb", "Version").strip()

    def calls(self) -> list[str]:
        """Return how `cgpu` was called since the last time."""
        path = self.node.path(CALLS)
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found


@pytest.fixture
def pod(packages: Packages, machine: Machine, folder: Path, tmp_path: Path) -> Pod:
    """Make a pod on a node without the package."""
    shutil.copy(packages.daemon, tmp_path / "opencgpu.deb")
    return Pod(machine, folder / "node-installer", tmp_path)


def newer(package: Path, field: str = "Version: 99.0") -> None:
    """Make another package out of one, with another field."""
    tree = package.parent / "newer"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True, timeout=60)
    control = tree / "DEBIAN/control"
    name = field.partition(":")[0]
    control.write_text(re.sub(rf"(?m)^{name}: .*", field, control.read_text()))
    subprocess.run(
        ["dpkg-deb", "-Znone", "--build", tree, package], check=True, timeout=60, capture_output=True
    )


def version(node: Machine) -> str:
    """Return the version of the package on a node, empty without it."""
    return node.attempt("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", "opencgpu").stdout


@pytest.mark.root
@pytest.mark.slow
def test_life_of_a_node(pod: Pod) -> None:
    """A node is installed, found so by a second pod, upgraded by a newer image, and cleared."""
    done = pod.run("install", CGPU_RUNTIMES="containerd,docker")
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith(f"node-installer: {pod.version} is set up\nwaits\n")
    assert pod.calls() == ["install --engine auto --runtimes containerd,docker"]
    assert "OF_THE_POD" not in pod.node.path(f"{CALLS}.environment").read_text()
    assert pod.run("install").returncode == 0
    assert pod.calls() == ["upgrade", "install --engine auto --runtimes containerd"]
    older = (pod.packages / "opencgpu.deb").read_bytes()
    newer(pod.packages / "opencgpu.deb")
    assert pod.run("install").returncode == 0
    assert pod.calls() == ["upgrade", "install --engine auto --runtimes containerd"]
    assert version(pod.node) == "installed 99.0"
    (pod.packages / "opencgpu.deb").write_bytes(older)
    done = pod.run("install")
    assert done.returncode == 0, done.stdout
    assert version(pod.node) == f"installed {pod.version}"
    assert pod.calls() == ["upgrade", "install --engine auto --runtimes containerd"]
    done = pod.run("uninstall", CGPU_DRAIN="1")
    assert done.returncode == 0, done.stdout
    assert pod.calls() == ["uninstall --drain"]
    assert pod.node.changes() == ["usr/local/bin/cgpu"]


@pytest.mark.root
@pytest.mark.slow
def test_failed_install(pod: Pod) -> None:
    """Where the packages cannot be installed the pod fails, and leaves nothing on the node."""
    newer(pod.packages / "opencgpu.deb", "Depends: no-such-package")
    done = pod.run("install")
    assert done.returncode == 1
    assert "node-installer: the packages could not be installed, apt-get says why above" in done.stdout
    assert "waits" not in done.stdout
    assert pod.calls() == []
    assert not list(pod.node.path("/var/cache").glob("opencgpu.*"))


@pytest.mark.root
def test_a_node_without_the_package(pod: Pod) -> None:
    """There is nothing to remove; it is ready once an engine runs. A word that is not known is refused."""
    assert "node-installer: not on this node" in pod.run("uninstall").stdout
    assert pod.calls() == []
    assert pod.run("check").returncode == 1
    pod.node.path("/run/cgpu_km").mkdir()
    pod.node.path("/run/cgpu_km/version").write_text("0.1.0\n")
    assert pod.run("check").returncode == 0
    done = pod.run("instal")
    line = "node-installer: 'instal': expected install, uninstall or check\n"
    assert (done.returncode, done.stdout) == (1, line)
