# SPDX-License-Identifier: Apache-2.0
"""Output of `cgpu events` in a machine."""

from __future__ import annotations

import json
from typing import Any

from tests.vm.harness.machine import Machine
from tests.vm.harness.store import ROOT

IN_ROOT = 'cd "$1"; shift; exec "$@"'


def events(machine: Machine, *filters: str) -> list[dict[str, Any]]:
    """Return the events that fit filters such as `gpu=0`, the oldest first."""
    command = (str(ROOT / ".venv/bin/python"), "-m", "cgpu.main", "events", "--format", "json")
    words = [word for one in filters for word in ("--filter", one)]
    shown = machine.shell(IN_ROOT, machine.seen(ROOT), *command, *words, timeout=240)
    return [json.loads(line) for line in shown.stdout.splitlines()]
