# SPDX-License-Identifier: Apache-2.0
"""A machine on which documents are carried out: a copy of this one with containerd, docker and podman."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.install.packaging.machine import Machine
from tests.integration.commands import eventually
from tests.integration.images import IMAGE, image_tar

VENV = "/opt/opencgpu"
# The packages of the registry are those of the tests' own environment (lend_packages).
PIP_TYPED = f"{VENV}/bin/pip install --quiet --no-deps --no-build-isolation ."
ASSIGNMENT = re.compile(r"[A-Z]+=(?:\$\(.*\)|\S*)")
# No systemd runs where tests do. These do of systemctl what documents ask for, to the same effect.
SYSTEMCTL = """#!/bin/sh
case "$1 $2" in
"reload docker" | "try-reload-or-restart docker") kill -HUP "$(cat /run/docker.pid)" ;;
"restart docker" | "restart containerd") exec /usr/local/sbin/restart "$2" ;;
is-*) exit 3 ;;
*) echo "systemctl $*: not known to the systemctl of tests/docs" >&2; exit 1 ;;
esac
"""
RESTART = """#!/bin/bash
if pid=$(cat "/run/$1.pid" 2>/dev/null); then
	kill "$pid"
	while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
fi
rm -f /run/docker.pid.lock
case $1 in
containerd)
	setsid containerd >>/tmp/containerd.log 2>&1 &
	echo $! >/run/containerd.pid
	answer="ctr version" ;;
docker)
	setsid dockerd --iptables=false --bridge=none --storage-driver=vfs \\
		--containerd=/run/containerd/containerd.sock >>/tmp/docker.log 2>&1 &
	answer="docker version" ;;
esac
for _ in $(seq 300); do $answer >/dev/null 2>&1 && exit 0; sleep 0.05; done
tail "/tmp/$1.log" >&2
exit 1
"""
# Settings that podman needs on a machine like this one, and that no document has to name.
CONTAINERS = """[containers]
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
cgroup_manager = "cgroupfs"
"""
STORAGE = """[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
"""
RESET = """docker ps -aq | xargs -r docker rm -f
if [ -e /var/lib/containers/storage/vfs-containers/containers.json ]; then podman rm -fa -t 0; fi
if [ -e /run/cgpu/control.sock ]; then cgpud --stop --force; fi
if [ -e /var/lib/cgpu/install ]; then cgpu uninstall; fi
"""
# Folders of the engines' images: each test begins without any.
STORES = ("/var/lib/containerd", "/var/lib/docker", "/var/lib/containers")
SETTINGS = (
    "/etc/cgpu",
    "/etc/docker",
    "/etc/containerd",
    "/etc/containers/containers.conf.d",
    "/etc/crio",
    "/etc/nvidia-container-runtime",
)


class Node:
    """The machine, and the shell in which a reader types."""

    def __init__(self, repository: Path, scratch: Path) -> None:
        self.machine = Machine()
        self.assignments: list[str] = []
        self.checkout = str(repository)
        if not self.machine.path(f"{self.checkout}/pyproject.toml").exists():
            # The checkout lies on a file system of its own, which the machine lacks.
            unused = shutil.ignore_patterns(".git", "debug-kernel", "fuzz", "asan")
            target = self.machine.path(self.checkout)
            shutil.copytree(repository, target, symlinks=True, ignore=unused, dirs_exist_ok=True)
        for store in STORES:
            self.machine.run("mkdir", "-p", store)
            self.machine.run("mount", "-t", "tmpfs", "tmpfs", store)
        for folder in SETTINGS:
            shutil.rmtree(self.machine.path(folder), ignore_errors=True)
        self.write("/usr/local/sbin/systemctl", SYSTEMCTL, 0o755)
        self.write("/usr/local/sbin/restart", RESTART, 0o755)
        self.write("/etc/containers/containers.conf", CONTAINERS)
        self.write("/etc/containers/storage.conf", STORAGE)
        for name in ("containerd", "docker"):
            self.shell(f"restart {name}")
        shutil.copy(image_tar(scratch), self.machine.path("/tmp/image.tar"))
        self.shell(f'docker import -c \'CMD ["/cgpu-probe", "info"]\' /tmp/image.tar {IMAGE}')

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.machine.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def type(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run a line as typed: a variable that it sets keeps its value for the lines after it."""
        if ASSIGNMENT.fullmatch(text):
            self.assignments.append(text)
        command = ("/bin/bash", "-c", "\n".join([*self.assignments, text]))
        return self.machine.attempt(*command, cwd=self.checkout)

    def shell(self, text: str) -> str:
        """Run a line that has to succeed, and return what it printed."""
        done = self.type(text)
        assert done.returncode == 0, f"{text}: exit status {done.returncode}: {done.stdout}"
        return done.stdout

    def install(self) -> None:
        """Install the checkout as README says, where that has not been done."""
        if not self.machine.path(f"{VENV}/bin/cgpu").exists():
            self.shell(f"python3 -m venv {VENV}")
            self.lend_packages()
            self.shell(PIP_TYPED)

    def lend_packages(self) -> None:
        """Let the reader's environment find what pip would fetch from a registry in the tests' own."""
        site = self.shell(
            f"{VENV}/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'"
        ).strip()
        assert f"python{sys.version_info.major}.{sys.version_info.minor}/" in site
        self.write(f"{site}/lent.pth", sysconfig.get_path("purelib") + "\n")

    def reset(self) -> None:
        """Bring it to where a document begins: nothing of ours is set up or runs."""
        self.assignments = [f"PATH={VENV}/bin:$PATH"]
        self.type(RESET)
        for folder in SETTINGS:
            shutil.rmtree(self.machine.path(folder), ignore_errors=True)
        eventually(lambda: not self.machine.path("/run/cgpu/control.sock").exists(), "no engine is left")

    def end(self) -> None:
        self.reset()
        for name in ("docker", "containerd"):
            self.shell(
                f"pid=$(cat /run/{name}.pid); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.05; done"
            )
        self.machine.end()
