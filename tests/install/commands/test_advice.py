# SPDX-License-Identifier: Apache-2.0
"""The commands take and do all that doctor advises."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

from cgpu.install.checks import DesiredState, preflight
from cgpu.install.commands.config import parser as config_parser
from cgpu.install.commands.doctor import FIXES, examine
from cgpu.install.commands.doctor import parser as doctor_parser
from cgpu.install.commands.gc import parser as gc_parser
from tests.install.machine import node, node_report

PARSERS = {"doctor": doctor_parser, "gc": gc_parser, "config": config_parser}


def test_every_fix_is_of_a_check(tmp_path: Path) -> None:
    """Each fix belongs to a check."""
    now = node_report(tmp_path)
    found = [one for kind in ("module", "daemon") for one in preflight(now.node, DesiredState(kind))]
    found += [one for kind in ("module", "daemon") for one in examine(replace(now, kind=kind))]
    assert set(FIXES) <= {one.name for one in found}


def test_commands_that_findings_name(tmp_path: Path) -> None:
    """Each of our commands that a finding advises is one that the commands take."""
    bad = node(tmp_path, driver={"loaded": "999.1", "known": False}, kernel={"loads_modules": False})
    found = [
        *preflight(bad, DesiredState("module", allow_unknown_driver=False)),
        *examine(node_report(tmp_path)),
    ]
    advised = [line for one in found for line in re.findall(r"cgpu (?:config|gc|doctor)[^;,]*", one.fix)]
    assert advised
    for line in advised:
        _, name, *words = shlex.split(line)
        PARSERS[name]().parse_args(words)
