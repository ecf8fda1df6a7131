# SPDX-License-Identifier: Apache-2.0
"""This machine's files with a layer of memory on top, in a mount namespace: to install packages for real."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Records that dpkg, apt and their triggers write of their own work.
PACKAGE_DATA = (
    "var/lib/dpkg/",
    "var/lib/apt/",
    "var/cache/",
    "var/log/",
    "etc/ld.so.cache",
    "var/lib/dkms/mok.",
)
# Files of other tests, or of a node that was set up. The copy begins without them.
HIDDEN = ("etc/cgpu", "var/lib/cgpu")
LAYER = "mnt"
# The layer stays visible at /mnt. Engines and package managers have a /run and a /tmp of their own.
SETUP = f"""
set -e
mount --make-rprivate /
mount -t tmpfs layer /{LAYER}
cd /{LAYER}
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount --rbind /dev root/dev
mount --rbind /sys root/sys
mount --rbind /proc root/proc
mount -t tmpfs tmpfs root/run
mount -t tmpfs tmpfs root/tmp
mount --bind /{LAYER} root/{LAYER}
chmod 1777 root/tmp
cd root
rm -rf {" ".join(HIDDEN)}
pivot_root . run
cd /
umount -l /run
mount -t tmpfs tmpfs /run
echo ready
exec sleep 1000
"""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class Machine:
    """A copy of this machine. `pid` is a process in it."""

    def __init__(self, setup: str = SETUP) -> None:
        """Start it. setup: makes its root, says "ready", and waits."""
        command = ["/usr/bin/unshare", "--mount", "/bin/bash", "-c", setup]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def path(self, name: str) -> Path:
        """Return where a path of it is seen from here."""
        return Path(f"/proc/{self.pid}/root", name.lstrip("/"))

    def attempt(self, *command: str, cwd: str = "/", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, with standard output and error as one text."""
        return subprocess.run(
            [*self._enter(cwd), *command],
            env=ENVIRONMENT | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._enter("/"), *command], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
        )

    def run(self, *command: str, cwd: str = "/", **environment: str) -> str:
        """Run a command in it that has to succeed, and return what it printed."""
        done = self.attempt(*command, cwd=cwd, **environment)
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def _enter(self, cwd: str) -> list[str]:
        return ["/usr/bin/nsenter", f"--target={self.pid}", "--mount", f"--wd={self.path(cwd)}"]

    def install(self, package: Path) -> str:
        """Install a package whose dependencies are there. Triggers of manual pages and the like wait."""
        shutil.copy(package, self.path("tmp"))
        return self.run("dpkg", "--no-triggers", "--force-unsafe-io", "--install", f"/tmp/{package.name}")

    def remove(self, name: str, *, purge: bool = False) -> subprocess.CompletedProcess[str]:
        return self.attempt("dpkg", "--no-triggers", "--purge" if purge else "--remove", name)

    def changes(self) -> list[str]:
        """Return every path that is not as it was at the start, without the data of package managers."""
        upper = self.path(f"{LAYER}/upper")
        found = [name for name in walk(upper) if not name.startswith(PACKAGE_DATA)]
        return sorted(name for name in found if is_changed(upper / name, Path("/", name)))

    def end(self) -> None:
        """End the engine that may run in it, and it."""
        self.attempt("/bin/sh", "-c", "if [ -e /run/cgpu/control.sock ]; then cgpud --stop --force; fi")
        self._process.kill()
        self._process.communicate()


def walk(top: Path) -> Iterator[str]:
    """Yield the paths of everything below a folder."""
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            yield str(Path(folder, name).relative_to(top))


def is_changed(above: Path, below: Path) -> bool:
    """Say whether what lies in the upper layer is something else than what it covers."""
    status = above.lstat()
    if not os.path.lexists(below) or str(below).startswith(tuple(f"/{name}" for name in HIDDEN)):
        # A whiteout over nothing: a file that came and went.
        return not stat.S_ISCHR(status.st_mode)
    before = below.lstat()
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(before.st_mode) or status.st_mode != before.st_mode:
        return True
    if stat.S_ISREG(status.st_mode):
        return above.read_bytes() != below.read_bytes()
    return stat.S_ISLNK(status.st_mode) and above.readlink() != below.readlink()
