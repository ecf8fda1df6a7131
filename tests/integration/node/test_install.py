# SPDX-License-Identifier: Apache-2.0
"""cgpu install and uninstall with the engines of this machine, on copies of its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.images import ROOT

SECONDS = 280
# A copy of /etc, and layers in memory over what else the installer edits; a /run of its own, for the sockets
# of docker and cgpud. Sources of a kernel are many files that each look at all would read: none are there.
NODE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
for place in usr/local/sbin var/lib; do
	mkdir -p "$1/$place/upper" "$1/$place/work"
	mount -t overlay overlay -o "lowerdir=/$place,upperdir=$1/$place/upper,workdir=$1/$place/work" "/$place"
done
rm -rf /etc/cgpu /var/lib/cgpu /etc/docker/daemon.json
mount -t tmpfs tmpfs /usr/src
mount -t tmpfs tmpfs /run
shift
exec "$@"
"""


def trial(name: str, folder: Path) -> str:
    """Run a program of this folder on such a node; return its last line."""
    # A trial that hangs prints where it is.
    limit = ["timeout", "--signal=ABRT", str(SECONDS)]
    node = ["unshare", "-m", "bash", "-c", NODE, "node", str(folder)]
    program = [sys.executable, "-X", "faulthandler", "-m", f"tests.integration.node.{name}"]
    done = subprocess.run([*limit, *node, *program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_node_and_back(tmp_path: Path) -> None:
    """Install, slices through docker and podman, refusals, uninstall: all files are as they were."""
    assert trial("install_trial", tmp_path) == "as before; the slice had 6043 MiB"


@pytest.mark.slow
def test_docker_lets_go(tmp_path: Path) -> None:
    """A running dockerd takes the runtime as its default, gives it up at uninstall, and lives on."""
    assert trial("reload_trial", tmp_path) == "dockerd has let go"


@pytest.mark.slow
def test_pods_of_containerd(tmp_path: Path) -> None:
    """Pods of the handler cgpu are sliced through containerd's CRI; all others live on through it all."""
    assert trial("containerd_trial", tmp_path) == "pods as before; the slice had 6043 MiB"
