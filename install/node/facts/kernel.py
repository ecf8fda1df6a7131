# SPDX-License-Identifier: Apache-2.0
"""The kernel: which, what it allows, and whether a module can be built for it, signed and loaded."""

from __future__ import annotations

import gzip
import os
import re
from dataclasses import dataclass
from pathlib import Path

from cgpu.install.node.facts import files
from cgpu.node_files import below
from cgpu.run.cgroup import mounts

VARIABLES = "/sys/firmware/efi/efivars"
SECURE_BOOT = f"{VARIABLES}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
OWNER_KEYS = "MokListRT"  # a long list goes on in variables with a number behind the name
# Places of dkms and of Debian's shim-signed for the key that dkms signs with.
SIGNING_KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")
OPTION = re.compile(r"^(CONFIG_\w+)=[ym]$", re.MULTILINE)
CONFIG_MAX = 1 << 22
SYSCTL = "/proc/sys/kernel"


@dataclass(frozen=True, slots=True)
class Kernel:
    """Facts of the running kernel. None: the kernel does not say, or not to us."""

    release: str | None
    machine: str
    headers: Path | None
    """Folder to build modules in, where it is complete."""
    options: frozenset[str] | None
    """CONFIG_ names that are on."""
    loads_modules: bool
    modules_disabled: bool
    enforces_signatures: bool
    lockdown: str | None
    secure_boot: bool | None
    signing_key: Path | None
    """Key that dkms signs modules with."""
    key_enrolled: bool | None
    """Whether the firmware's list of owner keys has it."""
    ftrace: bool | None
    kprobes: bool | None
    seccomp_notify: bool
    fuse: bool
    ptrace_scope: int | None
    cgroups: str | None
    """v1, v2 or hybrid."""


def gather(root: Path) -> Kernel:
    """Read the facts below a root."""
    release = files.line(root, f"{SYSCTL}/osrelease")
    options = _options(root, release)
    key = next((Path(path) for path in SIGNING_KEYS if files.content(root, path)), None)
    return Kernel(
        release=release,
        machine=os.uname().machine,
        headers=_headers(root, release),
        options=options,
        loads_modules=files.text(root, "/proc/modules", CONFIG_MAX) is not None,
        modules_disabled=files.line(root, f"{SYSCTL}/modules_disabled") == "1",
        enforces_signatures=files.line(root, "/sys/module/module/parameters/sig_enforce") == "Y",
        lockdown=chosen(files.line(root, "/sys/kernel/security/lockdown") or ""),
        secure_boot=_secure_boot(root),
        signing_key=key,
        key_enrolled=_is_enrolled(root, key),
        ftrace=_switch(root, f"{SYSCTL}/ftrace_enabled"),
        kprobes=_switch(root, "/sys/kernel/debug/kprobes/enabled"),
        seccomp_notify="user_notif" in (files.line(root, f"{SYSCTL}/seccomp/actions_avail") or "").split(),
        fuse=below(root, "/dev/fuse").exists(),
        ptrace_scope=_number(files.line(root, f"{SYSCTL}/yama/ptrace_scope")),
        cgroups=cgroup_mode(
            files.text(root, "/proc/1/mountinfo") or files.text(root, "/proc/self/mountinfo") or ""
        ),
    )


def chosen(said: str) -> str | None:
    """Return the word in brackets: the kernel's way to show one of several."""
    found = re.search(r"\[(\w+)\]", said)
    return found[1] if found else None


def cgroup_mode(mountinfo: str) -> str | None:
    """Return which versions of cgroups are mounted below /sys/fs/cgroup."""
    kinds = {kind for kind, _, _, at in mounts(mountinfo) if at.is_relative_to("/sys/fs/cgroup")}
    if "cgroup" in kinds:
        return "hybrid" if "cgroup2" in kinds else "v1"
    return "v2" if "cgroup2" in kinds else None


def _headers(root: Path, release: str | None) -> Path | None:
    if not release:
        return None
    folder = files.follow(root, f"/lib/modules/{release}/build")
    complete = all((folder / part).is_file() for part in ("Makefile", "include/generated/autoconf.h"))
    return Path(f"/lib/modules/{release}/build") if complete else None


def _options(root: Path, release: str | None) -> frozenset[str] | None:
    packed = files.content(root, "/proc/config.gz", CONFIG_MAX)
    if packed is not None:
        try:
            return frozenset(OPTION.findall(gzip.decompress(packed).decode("utf-8", "replace")))
        except (OSError, EOFError):
            return None
    for path in (f"/boot/config-{release}", f"/lib/modules/{release}/build/.config"):
        said = files.text(root, path, CONFIG_MAX)
        if said is not None:
            return frozenset(OPTION.findall(said))
    return None


def _secure_boot(root: Path) -> bool | None:
    """Four bytes of attributes, then 1 or 0. False on a machine that was started without EFI."""
    raw = files.content(root, SECURE_BOOT)
    if raw is not None:
        return raw[4:5] == b"\x01"
    if below(root, "/sys/firmware/efi").exists():
        return None
    return False if below(root, "/sys/firmware").is_dir() else None


def _is_enrolled(root: Path, key: Path | None) -> bool | None:
    lists = [name for name in files.names(root, VARIABLES) if name.startswith(OWNER_KEYS)]
    own = files.content(root, key) if key is not None else None
    if own is None or not lists:
        return None
    # A list has each certificate whole, as the key's file has it.
    return any(own in (files.content(root, f"{VARIABLES}/{name}") or b"") for name in lists)


def _switch(root: Path, path: str) -> bool | None:
    said = files.line(root, path)
    return None if said not in ("0", "1") else said == "1"


def _number(said: str | None) -> int | None:
    return int(said) if said is not None and said.isascii() and said.isdigit() else None
