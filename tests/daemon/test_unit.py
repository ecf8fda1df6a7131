# SPDX-License-Identifier: Apache-2.0
"""Starts of the daemon: its arguments, its files and its unit."""

from __future__ import annotations

import re
from pathlib import Path

from cgpu.kmod.daemon.arguments import worker_arguments
from cgpu.kmod.daemon.main import arguments_of, parser
from cgpu.kmod.daemon.places import Places
from tests.daemon.harness import ROOT

# Settings that give a service a mount namespace, and settings that give it a seccomp filter.
APART = "Private|Protect|ReadOnly|ReadWrite|Inaccessible|TemporaryFile|BindPaths|MountFlags|Root|Dynamic"
FILTERED = "SystemCall|Restrict|LockPersonality|MemoryDeny|NoNewPrivileges"


def test_arguments_come_through() -> None:
    """The daemon below the keeper gets the command's arguments."""
    line = ["--run", "/r", "--simulate", "T4:2", "--tree", "/t", "--config", "/c"]
    arguments = arguments_of(parser().parse_args(line))
    again = arguments_of(parser().parse_args(worker_arguments(arguments)))
    assert again == arguments
    assert arguments.places == Places(Path("/r"))


def test_unit_hides_nothing() -> None:
    """The host sees the tree: no mount namespace. The kernel shows filters to who has none: no filter."""
    options = re.findall(r"^([A-Za-z]+)=", (ROOT / "kmod/units/cgpud.service").read_text(), re.MULTILINE)
    assert [name for name in options if re.match(f"{APART}|{FILTERED}", name)] == []
