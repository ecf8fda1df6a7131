# SPDX-License-Identifier: Apache-2.0
"""How the daemon is started: its arguments, its files and its unit."""

from __future__ import annotations

import re
from pathlib import Path

from cgpu import paths
from cgpu.kmod.daemon.arguments import worker_arguments
from cgpu.kmod.daemon.main import arguments_of, parser
from cgpu.kmod.daemon.places import Places
from tests.daemon.harness import ROOT

UNIT = ROOT / "kmod" / "units" / "cgpud.service"
UNIT_OPTIONS = dict(re.findall(r"^([A-Za-z]+)=(.*)$", UNIT.read_text(), re.MULTILINE))


def test_arguments_come_through() -> None:
    """What the command was given is what the daemon below the keeper is given."""
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


def test_unit_gives_no_mount_namespace() -> None:
    """The unit has readiness, the descriptor store, and nothing that would hide the tree from the host."""
    assert UNIT_OPTIONS["Type"] == "notify"
    assert int(UNIT_OPTIONS["FileDescriptorStoreMax"]) == 4096
    assert UNIT_OPTIONS["FileDescriptorStorePreserve"] == "yes"
    assert UNIT_OPTIONS["Restart"] == "always"
    hiding = re.compile(
        "Private|Protect|ReadOnly|ReadWrite|Inaccessible|TemporaryFile|BindPaths|MountFlags|Root|Dynamic"
    )
    assert [name for name in UNIT_OPTIONS if hiding.match(name)] == []


def test_unit_gives_no_seccomp_filter() -> None:
    """Nothing in the unit gives the daemon a filter: with one the kernel shows it none of containers."""
    filtering = re.compile("SystemCall|Restrict(?!ed)|LockPersonality|MemoryDeny|NoNewPrivileges")
    assert [name for name in UNIT_OPTIONS if filtering.match(name) and name != "RestartSec"] == []


def test_unit_gives_up_on_what_cannot_start() -> None:
    """A daemon that cannot start is not started for ever."""
    assert int(UNIT_OPTIONS["StartLimitIntervalSec"]) > 0
    assert int(UNIT_OPTIONS["StartLimitBurst"]) > 0
