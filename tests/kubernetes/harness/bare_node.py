# SPDX-License-Identifier: Apache-2.0
"""The bare node of the cluster, whose first process is scripts/kubernetes/beside-node.

It stands for nodes that take no package and no service: no systemd, Python or C library where a program would
look for one, /usr and /etc read-only but for the folder of containerd's settings, /var writable. It is made
up of no system's files.

usage: python -m tests.kubernetes.harness.bare_node FOLDER    makes its files
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.install.packaging.bare_node import ENGINES, content, make_root, put_apart
from tests.kubernetes.harness.node import NETWORK, Place, write_network

PLACE = Place(Path("/proc/1/root"), Path("/bin"), ("nsenter", "--target=1", "--mount", "--"))
PLUGINS = ("host-local", "loopback", "ptp")
PLUGIN_FOLDER = Path("/usr/lib/cni")
FOLDERS = ("etc/cni", "var/lib/cni", "var/lib/containerd", "var/lib/kubelet", "var/log")
FILES = {"etc/hosts": "127.0.0.1 localhost\n", "etc/resolv.conf": ""}


def make(root: Path) -> None:
    """Make the node's files, with the programs that this environment's PATH has."""
    make_root(root, (*ENGINES, "cluster"))
    shutil.rmtree(root / "rootfs")
    for name in FOLDERS:
        (root / name).mkdir(exist_ok=True)
    for name, text in FILES.items():
        (root / name).write_text(text)
    write_network(root / NETWORK.relative_to("/"))
    plugins = root / PLUGIN_FOLDER.relative_to("/")
    plugins.mkdir(parents=True)
    for name in PLUGINS:
        put_apart(PLUGIN_FOLDER / name, plugins, root)
    (root / "var/run").symlink_to("/run")


def contents() -> dict[str, str]:
    """Return every path of the node's own files, with what it is. Logs of pods come and go."""
    return {str(path.relative_to(PLACE.root)): content(path) for path in _own() if "log" not in path.parts}


def _own() -> Iterator[Path]:
    """Yield the paths that are on the node's own file system."""
    device = PLACE.root.stat().st_dev
    for folder, folders, files in os.walk(f"{PLACE.root}/"):
        folders[:] = [name for name in folders if Path(folder, name).lstat().st_dev == device]
        yield from (Path(folder, name) for name in (*folders, *files))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
