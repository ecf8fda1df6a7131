# SPDX-License-Identifier: Apache-2.0
"""A node with busybox, containerd, runc and nothing else: no Python, no package manager, no systemd.

Debian's containerd and runc need a C library. Theirs lies where no other program looks for one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import subprocess
from pathlib import Path

from tests.install.packaging.machine import Machine, walk
from tests.integration.commands import must
from tests.packages import ROOT

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
# Commands of this machine until the root is left; then busybox's.
SETUP = """
set -e
mount --make-rprivate /
cd {root}
mount --bind . .
cd {root}
mount --rbind /dev dev
mount --rbind /sys sys
mount --rbind /proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
for folder in {read_only}; do
	mount --bind "$folder" "$folder"
	mount -o remount,bind,ro "$folder"
done
pivot_root . tmp
cd /
/bin/umount -l /tmp
echo ready
exec /bin/sleep 1000
"""


class BareNode(Machine):
    """The node below a folder. read_only: folders that nobody can write to."""

    def __init__(self, root: Path, read_only: str) -> None:
        super().__init__(SETUP.format(root=root, read_only=read_only))


def make_root(root: Path) -> None:
    """Make the node's files."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    for name, text in FILES.items():
        (root / name).write_text(text)
    shutil.copy("/bin/busybox", root / "bin")
    must(["chroot", root, "/bin/busybox", "--install", "-s", "/bin"])
    for name in ENGINES:
        program = shutil.which(name)
        assert program is not None, f"{name} is not installed"
        put_apart(Path(program), root / "bin")
        for library in LIBRARY.findall(must(["ldd", program]).stdout):
            folder = "eng64" if "ld-linux" in library else "eng/x86_64-linux-gnu"
            put_apart(Path(library), root / folder)
    # The containers run the busybox and the project's probe.
    shutil.copy("/bin/busybox", root / "rootfs")
    shutil.copy(ROOT / "kmod/build/cgpu-probe", root / "rootfs")


def put_apart(file: Path, folder: Path) -> None:
    """Copy a program or library, with the hidden folders' names."""
    data = file.read_bytes()
    for usual, hidden in HIDDEN:
        data = data.replace(usual, hidden)
    (folder / file.name).write_bytes(data)
    (folder / file.name).chmod(0o755)


def contents(root: Path) -> dict[str, str]:
    """Return every path below a folder with what it is: its mode, and content or target."""
    return {name: _content(root / name) for name in walk(root)}


def _content(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link {path.readlink()}"
    return f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ''}"


def unpack(bundle: Path, folder: Path) -> None:
    subprocess.run(["tar", "--extract", "--file", bundle, "--directory", folder], check=True, timeout=60)
