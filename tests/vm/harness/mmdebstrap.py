# SPDX-License-Identifier: Apache-2.0
"""A Debian in a folder, by mmdebstrap from the sources that apt has on this machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SECONDS = 600
# mmdebstrap mounts what this machine has, such as /dev/shm, in the folder that it fills. A kill leaves the
# mounts, and a removal of the folder would empty them: so no other process sees them, and they go with it.
APART = ("unshare", "--mount", "--propagation", "private",
         "--pid", "--fork", "--kill-child", "--mount-proc")  # fmt: skip


def own_suite() -> str:
    """Return the code name of this machine's Debian."""
    found = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert found, "/etc/os-release: no VERSION_CODENAME: expected Debian's"
    return found[1]


def sources(suite: str) -> str:
    """Return the lines of a sources.list for a suite, at the mirrors that apt has of this machine's own.

    Testing has no updates, and at most times no security updates of its own.
    """
    own = own_suite()
    shape = "$(REPO_URI) $(CODENAME) $(COMPONENT) $(ORIGIN)"
    command = ["apt-get", "indextargets", "--format", shape, "Created-By: Packages"]
    targets = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    rows = [line.split() for line in targets.splitlines()]
    found = [row for row in rows if row[-1] == "Debian" and row[1].startswith(own) and row[2] == "main"]
    assert found, f"apt has no lists of {own}; run: apt-get update"
    wanted = [row for row in found if suite != "testing" or row[1] == own]
    return "".join(f"deb {row[0]} {suite}{row[1].removeprefix(own)} main\n" for row in sorted(wanted))


def settings() -> list[str]:
    """Return options that have mmdebstrap reach the archive as apt does here. A mirror may stand still."""
    command = ["apt-config", "dump", "--format", '%f "%v";%n', "Acquire::http", "Acquire::https"]
    lines = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    found = [line for line in lines if "::Proxy" in line]
    return [f"--aptopt={line}" for line in (*found, 'Acquire::Check-Valid-Until "false";')]


def make_root(suite: str, root: Path, *options: str) -> None:
    """Make a Debian in a folder that is not there yet. `options` are mmdebstrap's."""
    command = [*APART, "mmdebstrap", "--format=directory", *options, *settings(), suite, str(root), "-"]
    done = subprocess.run(
        command, input=sources(suite), capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, f"mmdebstrap:\n{done.stderr[-6000:]}"


def remove(root: Path) -> None:
    """Remove a folder with a root, and nothing that is mounted in it."""
    subprocess.run(["rm", "-rf", "--one-file-system", str(root)], check=True, timeout=SECONDS)
