# SPDX-License-Identifier: Apache-2.0
"""A node with busybox, containerd, runc and nothing else: no Python, no package manager, no systemd.

Debian's containerd and runc need a C library. Theirs lies where no other program looks for one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.install.packaging.machine import Machine, walk
from tests.integration.commands import call, must
from tests.packages import ROOT

CGROUPS = Path("/sys/fs/cgroup")
ENGINES = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
# Names of the same length for the folders of the loader and of the libraries.
HIDDEN = ((b"/lib64/ld-linux", b"/eng64/ld-linux"), (b"/lib/x86_64-linux-gnu/", b"/eng/x86_64-linux-gnu/"))
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
FOLDERS = ("bin", "dev", "eng64", "etc/containerd", "opt", "proc", "run", "sys", "tmp", "usr/bin", "var/lib",
           "rootfs/dev", "rootfs/proc", "rootfs/run", "rootfs/sys", "eng/x86_64-linux-gnu")  # fmt: skip
FILES = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/containerd/config.toml": "version = 2\n# as its owner has it\n[grpc]\n  gid = 0\n",
}
# Of the bundle.
RUNTIME = "lib/bundle/cgpu/runtime_config/launcher/cgpu-container-runtime"
# What a container asks for, and what the probe then sees.
SLICE, TOTAL = "OPENCGPU_MEM=1G", "total=1073741824 "
# Stands for the systemd of Bottlerocket, COS or Flatcar, and is made up: keeps names of units, starts none.
MADE_UP_SYSTEMD = """#!/bin/sh
mkdir -p /run/systemd/system /run/made-up/enabled /run/made-up/active
verb=$1
shift
for unit; do
	case $verb-$unit in
	*---*) ;;
	is-*) [ -e "/run/made-up/${verb#is-}/$unit" ] || exit 3 ;;
	enable-*) touch "/run/made-up/enabled/$unit" "/run/made-up/active/$unit" ;;
	disable-*) rm -f "/run/made-up/enabled/$unit" "/run/made-up/active/$unit" ;;
	start-* | restart-*) touch "/run/made-up/active/$unit" ;;
	stop-*) rm -f "/run/made-up/active/$unit" ;;
	esac
done
"""
# Commands of this machine until the root is left; then busybox's.
SETUP = """
set -e
mount --make-rprivate /
cd {root}
mount --bind . .
cd {root}
mount --rbind /dev dev
mount --rbind /sys sys
[ {cgroups} = /sys/fs/cgroup ] || mount --bind {cgroups} sys/fs/cgroup
mount --rbind /proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
for folder in {read_only}; do
	mount --bind "$folder" "$folder"
	mount -o remount,bind,ro "$folder"
done
mount --bind etc/containerd etc/containerd
mount -o remount,bind,rw etc/containerd
pivot_root . tmp
cd /
/bin/umount -l /tmp
echo ready
exec /bin/sleep 1000
"""


class BareNode(Machine):
    """The node below a folder. read_only: folders that nobody can write to, but for containerd's settings.

    cgroups: the folder of this machine that is the node's /sys/fs/cgroup.
    """

    def __init__(self, root: Path, read_only: str, cgroups: Path = CGROUPS) -> None:
        super().__init__(SETUP.format(root=root, read_only=read_only, cgroups=cgroups))


def make_root(root: Path, programs: Sequence[str] = ENGINES) -> None:
    """Make the node's files. programs: names of those that it has beside busybox."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    for name, text in FILES.items():
        (root / name).write_text(text)
    shutil.copy("/bin/busybox", root / "bin")
    must(["chroot", root, "/bin/busybox", "--install", "-s", "/bin"])
    for name in programs:
        program = shutil.which(name)
        assert program is not None, f"{name} is not installed"
        put_apart(Path(program), root / "bin", root)
    (root / "bin/made-up-systemd").write_text(MADE_UP_SYSTEMD)
    (root / "bin/made-up-systemd").chmod(0o755)
    # The containers run the busybox and the project's probe.
    shutil.copy("/bin/busybox", root / "rootfs")
    shutil.copy(ROOT / "kmod/build/cgpu-probe", root / "rootfs")


def put_apart(program: Path, folder: Path, root: Path) -> None:
    """Copy a program to a folder, and its libraries, if it has some, to the root's hidden folders."""
    _rename_libraries(program, folder)
    for library in LIBRARY.findall(call(["ldd", program]).stdout):
        name = "eng64" if "ld-linux" in library else "eng/x86_64-linux-gnu"
        _rename_libraries(Path(library), root / name)


def _rename_libraries(file: Path, folder: Path) -> None:
    """Copy a program or library, with the hidden folders' names."""
    data = file.read_bytes()
    for usual, hidden in HIDDEN:
        data = data.replace(usual, hidden)
    (folder / file.name).write_bytes(data)
    (folder / file.name).chmod(0o755)


def contents(root: Path) -> dict[str, str]:
    """Return every path below a folder with what it is: its mode, and content or target."""
    return {name: content(root / name) for name in walk(root)}


def content(path: Path) -> str:
    """Return what a path is: its mode, and content or target."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link {path.readlink()}"
    return f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ''}"


def unpack(bundle: Path, folder: Path) -> None:
    subprocess.run(["tar", "--extract", "--file", bundle, "--directory", folder], check=True, timeout=60)


def make_container(node: BareNode, *command: str) -> None:
    """Have runc's own specification of a container run a command in a slice, with no terminal."""
    node.run("rm", "-rf", "/run/bundle")
    node.run("mkdir", "/run/bundle")
    node.run("runc", "spec", cwd="/run/bundle")
    path = node.path("/run/bundle/config.json")
    spec = json.loads(path.read_text())
    spec["process"] |= {"args": list(command), "terminal": False}
    spec["process"]["env"].append(SLICE)
    spec["root"]["path"] = "/rootfs"
    path.write_text(json.dumps(spec))
