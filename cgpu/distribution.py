# SPDX-License-Identifier: Apache-2.0
"""Which distribution this is, by os-release(5), and the command that installs a package there."""

from __future__ import annotations

import os
import re

from cgpu.files import read_fd

OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")
OS_RELEASE_MAX = 1 << 16
DEBIAN, RPM = "debian", "rpm"
# Words of ID and ID_LIKE, with the family of each.
IDS = {"debian": DEBIAN, "ubuntu": DEBIAN, "rhel": RPM, "fedora": RPM, "centos": RPM}
COMMANDS = {DEBIAN: "apt-get install", RPM: "dnf install"}
# Names of packages on Fedora and RHEL where they differ from Debian's. RHEL 10 has no runc.
NAMES = {"runc": "crun"}
HEADERS, KERNEL_DEVEL = "linux-headers-", "kernel-devel-"
FIELD = re.compile(r"""^(ID|ID_LIKE)=(["']?)([a-z0-9._ -]*)\2$""", re.MULTILINE)


def family(os_release: str | None) -> str | None:
    """Return the family of the distribution with this os-release: DEBIAN, RPM, or None for another one."""
    fields = {name: value for name, _, value in FIELD.findall(os_release or "")}
    words = [*fields.get("ID", "").split(), *fields.get("ID_LIKE", "").split()]
    return next((IDS[word] for word in words if word in IDS), None)


def here() -> str | None:
    """Return the family of this system."""
    for path in OS_RELEASE:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            return family(read_fd(fd, OS_RELEASE_MAX).decode("utf-8", "replace"))
        except OSError:
            return None
        finally:
            os.close(fd)
    return None


def install_command(package: str, of: str | None) -> str:
    """Return the command by which a family of distributions installs a package, given by Debian's name."""
    if of == RPM:
        package = NAMES.get(package, package).replace(HEADERS, KERNEL_DEVEL)
    return f"{COMMANDS[of]} {package}" if of in COMMANDS else f"install the package {package}"
