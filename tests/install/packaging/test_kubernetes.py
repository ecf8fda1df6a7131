# SPDX-License-Identifier: Apache-2.0
"""The manifests for Kubernetes, the image, and the node installer run against a copy of this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
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

LABEL = "opencgpu.io/node"
CALLS = "/tmp/calls"
GZIP = b"\x1f\x8b"
# The commands have tests of their own; these tests check that they are called, in order, on the node.
RECORDER = f"""#!/bin/sh
echo "$*" >>{CALLS}
env >{CALLS}.environment
cat /proc/$$/cgroup >{CALLS}.${{0##*/}}.cgroup
case $1 in
install) mkdir -p /var/lib/cgpu/install && touch /var/lib/cgpu/install/record ;;
uninstall) rm -rf /var/lib/cgpu ;;
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
    text = (folder / "bundled.txt").read_text()
    found = re.findall(r"^([\w.-]+)==(\S+) \\\n    --hash=sha256:", text, re.MULTILINE)
    pinned = {name.lower(): version for name, version in found}
    assert len(pinned) == text.count("==")
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
def test_image(folder: Path, tmp_path: Path, runroot: Path) -> None:
    """The image has the bundle and the installer, which it starts."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed; run: scripts/bootstrap test")
    context = tmp_path / "context"
    make_bundle(context / "dist/node/opencgpu-1.0-x86_64.tar.gz", "1.0")
    shutil.copytree(folder, context / "install/packaging/kubernetes")
    places = ["--root", tmp_path / "store", "--runroot", runroot]
    podman = ["podman", *places, "--storage-driver", "vfs"]
    arguments = ["--build-arg", "BASE=scratch", "--target", "installer"]
    file = "install/packaging/kubernetes/Containerfile"
    run(*podman, "build", *arguments, "--tag", "node", "--file", file, ".", cwd=context)
    form = "{{.Config.Entrypoint}} {{.Config.Cmd}}"
    assert run(*podman, "inspect", "--format", form, "node") == "[/usr/local/bin/node-installer] [install]\n"
    run(*podman, "save", "--format", "oci-dir", "--output", tmp_path / "image", "node")
    blobs = [path for path in (tmp_path / "image").rglob("*") if path.is_file()]
    listed = "".join(run("tar", "-tzvf", path) for path in blobs if path.read_bytes().startswith(GZIP))
    assert re.search(r"^-rwxr-xr-x .* usr/local/bin/node-installer$", listed, re.MULTILINE)
    assert "opt/opencgpu.tar.gz" in listed


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command that has to succeed and return what it prints."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def make_bundle(archive: Path, version: str) -> None:
    """Make a bundle whose commands say how they were called."""
    top = archive.parent / "made"
    (top / "opencgpu" / version / "lib/bundle").mkdir(parents=True)
    programs = top / "opencgpu" / version / "bin"
    programs.mkdir()
    for name in ("cgpu", "cgpud", "cgpu-container-runtime-server"):
        (programs / name).write_text(RECORDER)
        (programs / name).chmod(0o755)
    (top / "opencgpu/current").symlink_to(version)
    run("tar", "-czf", archive, "-C", top, f"opencgpu/{version}", "opencgpu/current")
    shutil.rmtree(top)


class Pod:
    """Runs the installer as a pod on a node would. Its bundle has version 1.0."""

    def __init__(self, node: Machine, script: Path, folder: Path) -> None:
        self.node = node
        self.script = script
        self.bundle = folder / "opencgpu.tar.gz"
        make_bundle(self.bundle, "1.0")

    def run(self, word: str, group: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        own = {
            "CGPU_NODE_PID": str(self.node.pid),
            "CGPU_BUNDLE": str(self.bundle),
            "CGPU_WAIT": "echo waits",
        }
        enter = [] if group is None else ["/bin/sh", "-c", f'echo 0 >{group}/cgroup.procs; exec "$@"', "sh"]
        return subprocess.run(
            [*enter, self.script, word],
            env=os.environ | own | {"OF_THE_POD": "1"} | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )

    def calls(self) -> list[str]:
        """Return how commands were called since the last time."""
        path = self.node.path(CALLS)
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def group_names(self, program: str, group: Path) -> list[str]:
        """Return the lines of a program's cgroups, as it was called last, that name a group."""
        found = self.node.path(f"{CALLS}.{program}.cgroup").read_text().splitlines()
        return [line for line in found if line.endswith(f"/{group.name}")]

    def versions(self) -> list[str]:
        """Return what lies beside each other on the node."""
        return sorted(path.name for path in self.node.path("/opt/opencgpu").iterdir())


@pytest.fixture
def pod(machine: Machine, folder: Path, tmp_path: Path) -> Pod:
    """Make a pod on a node without the bundle."""
    return Pod(machine, folder / "node-installer", tmp_path)


@pytest.mark.root
def test_life_of_a_node(pod: Pod) -> None:
    """A node is installed, found so by a second pod, upgraded by newer images, and cleared."""
    done = pod.run("install", CGPU_RUNTIMES="containerd,docker")
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("node-installer: 1.0 is set up\nwaits\n")
    assert pod.calls() == ["upgrade", "install --engine auto --runtimes containerd,docker"]
    assert "OF_THE_POD" not in pod.node.path(f"{CALLS}.environment").read_text()
    again = ["upgrade", "install --engine auto --runtimes kubelet"]
    # Files of others in the folder stay.
    pod.node.path("/opt/opencgpu/lib").mkdir()
    for version, there in (
        ("1.0", ["1.0"]),
        ("2.0", ["1.0", "2.0"]),
        ("3.0", ["2.0", "3.0"]),
        ("2.0", ["2.0", "3.0"]),
    ):
        make_bundle(pod.bundle, version)
        done = pod.run("install")
        assert done.returncode == 0, done.stdout
        assert pod.calls() == again
        assert pod.versions() == [*there, "current", "lib"]
        assert str(pod.node.path("/opt/opencgpu/current").readlink()) == version
    pod.node.path("/opt/opencgpu/lib").rmdir()
    done = pod.run("uninstall", CGPU_DRAIN="1")
    assert done.returncode == 0, done.stdout
    assert pod.calls() == ["uninstall --drain"]
    assert pod.node.changes() == []


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a group of processes, as a pod is, in a hierarchy of cgroups."""
    top = Path("/sys/fs/cgroup")
    made = (top if (top / "cgroup.procs").exists() else top / "pids") / f"opencgpu-test-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()


@pytest.mark.root
def test_a_daemon_of_a_pod(pod: Pod, group: Path) -> None:
    """A pod starts the daemon outside of its own cgroup, and the runtime's server in it."""
    own = {"CGPU_STARTED_BY": "pod", "CGPU_SIMULATE": "T4:2"}
    done = pod.run("install", group, **own)
    assert done.returncode == 0, done.stdout
    installs = "install --engine daemon --no-units --runtimes kubelet"
    assert pod.calls() == ["upgrade", installs, "--simulate T4:2", ""]
    assert pod.group_names("cgpud", group) == []
    assert pod.group_names("cgpu-container-runtime-server", group) != []
    pod.node.path("/run/cgpu_km").mkdir()
    pod.node.path("/run/cgpu_km/version").touch()
    assert pod.run("install", group, **own).returncode == 0
    assert pod.calls() == ["upgrade", installs, ""]
    done = pod.run("install", None, **own, CGPU_ENGINE="module")
    assert (done.returncode, "expected systemd, or pod with" in done.stdout) == (1, True)
    assert pod.calls() == []


@pytest.mark.root
def test_failed_install(pod: Pod) -> None:
    """Where the bundle cannot be unpacked the pod fails, and leaves nothing on the node."""
    whole = pod.bundle.read_bytes()
    pod.bundle.write_bytes(whole[:-10])
    done = pod.run("install")
    assert done.returncode == 1
    assert "node-installer: the bundle cannot be unpacked in /opt, see above" in done.stdout
    assert pod.calls() == []
    assert pod.node.changes() == []
    pod.bundle.write_bytes(whole)
    pod.node.run("ln", "-s", "/var", "/srv/elsewhere")
    done = pod.run("install", CGPU_FOLDER="/srv/elsewhere")
    assert (done.returncode, "is a link on this node" in done.stdout) == (1, True)
    assert pod.run("install", CGPU_FOLDER="/var").returncode == 0
    assert pod.node.path("/var/opencgpu/1.0/bin/cgpu").exists()


@pytest.mark.root
def test_a_node_without_the_bundle(pod: Pod) -> None:
    """There is nothing to remove; it is ready once an engine runs. A word that is not known is refused."""
    done = pod.run("uninstall")
    assert (done.returncode, done.stdout) == (0, "node-installer: not on this node\nwaits\n")
    assert pod.calls() == []
    asked = (("check", "systemd"), ("alive", "pod"), ("alive", "systemd"))
    statuses = [pod.run(word, CGPU_STARTED_BY=by).returncode for word, by in asked]
    assert statuses == [1, 1, 0]
    pod.node.path("/run/cgpu_km").mkdir()
    pod.node.path("/run/cgpu_km/version").write_text("0.1.0\n")
    assert [pod.run(word, CGPU_STARTED_BY=by).returncode for word, by in asked] == [0, 0, 0]
    done = pod.run("instal")
    line = "node-installer: 'instal': expected install, uninstall, check or alive\n"
    assert (done.returncode, done.stdout) == (1, line)


# Ends the installer at its first removal of a folder, half done.
ENDING = """#!/bin/sh
for word; do [ -L "$word" ] || [ ! -d "$word" ] || { /bin/rm -rf "$word/bin"; kill -9 $PPID; exit; }; done
exec /bin/rm "$@"
"""


@pytest.mark.root
def test_pods_that_end_amid_their_work(pod: Pod, tmp_path: Path) -> None:
    """A version that was half removed is none: it comes back whole, and an uninstallation leaves nothing."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "rm").write_text(ENDING)
    (programs / "rm").chmod(0o755)
    ending = f"{programs}:{os.environ['PATH']}"
    assert pod.run("install").returncode == 0
    for version in ("2.0", "3.0"):
        make_bundle(pod.bundle, version)
        pod.run("install", PATH=ending)
    make_bundle(pod.bundle, "1.0")
    done = pod.run("install")
    assert done.returncode == 0, done.stdout
    assert pod.node.path("/opt/opencgpu/1.0/bin/cgpu").exists()
    assert pod.run("uninstall", PATH=ending).returncode == -signal.SIGKILL
    # One that ended before the first bundle was in force.
    pod.node.path("/opt/opencgpu/.new.123456/opencgpu/1.0").mkdir(parents=True)
    assert pod.run("uninstall").returncode == 0
    assert pod.node.changes() == []


@pytest.mark.root
@pytest.mark.parametrize("link", ["/data", "/data/inner", "/data/inner/opencgpu"])
def test_links_on_the_way(pod: Pod, link: str) -> None:
    """A link from the root leads to the pod's own files, wherever on the way it is: it is named."""
    pod.node.path(link).parent.mkdir(parents=True, exist_ok=True)
    pod.node.path("/var/there/inner/opencgpu").mkdir(parents=True)
    pod.node.path(link).symlink_to("/var/there")
    for word in ("install", "uninstall"):
        done = pod.run(word, CGPU_FOLDER="/data/inner")
        assert (done.returncode, f"node-installer: {link} is a link" in done.stdout) == (1, True), done.stdout


@pytest.mark.root
def test_a_link_to_the_record(pod: Pod) -> None:
    """A bundle's commands upgrade, and uninstall before it goes, wherever the node keeps their record."""
    pod.node.run("ln", "-s", "/data/cgpu", "/var/lib/cgpu")
    pod.node.run("mkdir", "-p", "/data/cgpu")
    assert pod.run("install").returncode == 0
    pod.calls()
    make_bundle(pod.bundle, "2.0")
    assert pod.run("install").returncode == 0
    assert pod.calls()[0] == "upgrade"
    assert pod.run("uninstall").returncode == 0
    assert pod.calls() == ["uninstall"]
