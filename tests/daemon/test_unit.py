# SPDX-License-Identifier: Apache-2.0
"""Starts of the daemon: its arguments, its files and its unit."""

from __future__ import annotations

import re
from pathlib import Path

from cgpu import paths
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


def test_places_are_the_shared_ones() -> None:
    """The daemon's files are where hook and wrapper look for them."""
    own = Places()
    ours = (own.effective, own.control, own.seccomp, own.keeper, own.cdi, own.cdi_devices, own.sim)
    shared = (paths.EFFECTIVE, paths.CONTROL_SOCKET, paths.SECCOMP_SOCKET, paths.KEEPER_SOCKET)
    assert tuple(map(str, ours)) == (*shared, paths.CDI, paths.CDI_DEVICES, paths.SIM)


def test_unit_hides_nothing() -> None:
    """The host sees the tree: no mount namespace. The kernel shows filters to who has none: no filter."""
    options = re.findall(r"^([A-Za-z]+)=", (ROOT / "kmod/units/cgpud.service").read_text(), re.MULTILINE)
    assert [name for name in options if re.match(f"{APART}|{FILTERED}", name)] == []
