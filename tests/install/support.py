# SPDX-License-Identifier: Apache-2.0
"""A node below a folder: its files, its systemd, its facts, and what is compared afterwards."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cgpu.install import drain
from cgpu.install.installer import Installer, Request
from cgpu.install.node.facts.software import Program
from cgpu.install.node.machine import Node, gather
from cgpu.install.runner import TIMEOUT_S, Done
from cgpu.node_files import below
from cgpu.runtime_config.engines.engine import ContainerEngine
from tests.install.engines import ENGINES

Entry = tuple[str, int, int, int, bytes, tuple[tuple[str, bytes], ...]]
DAEMON = Request("daemon")
DRIVER = "580.142"
UNIT_FOLDERS = ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")


def make_node(root: Path) -> Path:
    """Fill a folder with what the installer meets on a node."""
    files = {
        "etc/whale/whale.conf": "debug=true\nlog-level=warn\n",
        "etc/storage/seal.real": "# nothing=else\nrootless=no\n",
        "etc/hosts": "127.0.0.1 localhost\n",
        "etc/systemd/system/other.service": "[Unit]\nDescription=another one\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "etc/seal.conf").symlink_to("storage/seal.real")
    (root / "etc/storage/hosts.other").hardlink_to(root / "etc/hosts")
    (root / "etc/whale/whale.conf").chmod(0o600)
    (root / "etc/whale").chmod(0o750)
    if os.geteuid() == 0:
        os.chown(root / "etc/whale/whale.conf", 12, 34)
    with contextlib.suppress(OSError):
        os.setxattr(root / "etc/whale/whale.conf", "user.note", b"mine")
    for name in ("run/systemd/system", "var/lib", "system/enabled"):
        (root / name).mkdir(parents=True)
    return root


def is_draining(root: Path) -> bool:
    return below(root, drain.MARK).exists()


def snapshot(root: Path) -> dict[str, Entry]:
    """Return everything below a folder, but for times."""
    found: dict[str, Entry] = {}
    for path in root.rglob("*"):
        status = path.lstat()
        content = b""
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        names = os.listxattr(path, follow_symlinks=False)
        xattrs = tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in sorted(names))
        kind = stat.filemode(status.st_mode)
        found[str(path.relative_to(root))] = (
            kind, status.st_uid, status.st_gid, 0 if path.is_dir() else status.st_nlink, content, xattrs
        )  # fmt: skip
    return found


@dataclass
class System:
    """systemctl of a node below a folder: what is enabled lies in files, and outlives a killed process.

    refuses: words of a command that fails. replies: what commands end with that begin with these words.
    """

    root: Path
    refuses: str = ""
    replies: Mapping[str, Done] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)

    def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
        line = " ".join(words)
        self.commands.append(line)
        if self.refuses and self.refuses in line:
            return Done(1, f"{line}: does not work today\n")
        for beginning, done in self.replies.items():
            if line.startswith(beginning):
                return done
        verb, unit = words[1], words[-1]
        enabled = self.root / "system/enabled" / unit
        match verb:
            case "is-active" | "is-enabled":
                return Done(0 if enabled.exists() else 3, "")
            case "enable":
                if not self.has_file(unit):
                    return Done(1, f"Unit file {unit} does not exist.\n")
                enabled.touch()
            case "disable":
                if not self.has_file(unit):
                    return Done(1, f"Unit file {unit} does not exist.\n")
                enabled.unlink(missing_ok=True)
        return Done(0, "")

    def has_file(self, unit: str) -> bool:
        return any((self.root / folder / unit).exists() for folder in UNIT_FOLDERS)


def facts(
    root: Path, *, systemd: bool = True, driver: str | None = DRIVER, engines: Iterable[str] = ENGINES
) -> Node:
    """Return the facts of a node on which nothing is in the way."""
    node = gather(root)
    program = Program("runc", Path("/usr/sbin/runc"), "1.1.5", running=False)
    there = tuple(Program(name, Path("/usr/bin", name), "1", running=True) for name in engines)
    return replace(
        node,
        kernel=replace(
            node.kernel, release="6.1.0-56-amd64", machine="x86_64", seccomp_notify=True, fuse=True,
            cgroups="v2", loads_modules=True, modules_disabled=False, headers=Path("/usr/src"),
        ),
        driver=replace(node.driver, loaded=driver, known=driver is not None, uvm=True),
        software=replace(
            node.software, fuse=Path("/usr/lib/libfuse3.so.3"), systemd=systemd, low_level=(program,),
            dkms=Program("dkms", Path("/usr/sbin/dkms"), "3", running=False), engines=there,
        ),
    )  # fmt: skip


def installer(
    root: Path,
    system: System | None = None,
    engines: Mapping[str, ContainerEngine] = ENGINES,
    *,
    systemd: bool = True,
    driver: str | None = DRIVER,
) -> Installer:
    """Return the installer of a node; what it says is kept in its notes."""
    said: list[str] = []
    one = Installer(
        root,
        system or System(root),
        engines,
        lambda: facts(root, systemd=systemd, driver=driver, engines=engines),
        said.append,
    )
    one.notes = said
    return one
