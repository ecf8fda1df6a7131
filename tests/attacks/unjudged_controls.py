# SPDX-License-Identifier: Apache-2.0
"""Controls that nobody judged, and those that are the node's, by whoever has rights in its container.

A list of what is refused has gaps. gVisor's nvproxy, in the same place, lets through what it knows:
https://github.com/google/gvisor/blob/master/g3doc/proposals/nvidia_driver_proxy.md.
"""

from __future__ import annotations

import json
from collections import Counter

from tests.attacks.arena import Arena
from tests.attacks.attack import attack, await_nothing, rest
from tests.attacks.build import client
from tests.vm.store import ROOT

STRANGERS = 4000  # of 4096 numbers, some are in the table
# NVIDIA's driver refuses a few by itself before it looks at their parameters: 550.163.01 one of them.
REFUSED_BY_DRIVER = 3


@attack(limit=True)
def unjudged_controls(arena: Arena) -> None:
    """None that is refused or not known reaches the driver, however it is asked, and those that pass do."""
    table = json.loads((ROOT / "kmod" / "abi" / "controls.json").read_text())["controls"]
    verdicts = Counter(row["verdict"] for row in table.values())
    tenant = arena.tenant()
    running = tenant.start(client("controls"), "--dev", arena.dev)
    told = rest(running, "tried")
    assert told["reached"] == 0, told
    assert told["refused"] >= verdicts["refuse"], told
    assert told["passed"] >= verdicts["pass"] - REFUSED_BY_DRIVER, told
    assert told["strangers"] >= STRANGERS, told
    running.go_on()
    running.finish()
    await_nothing(arena, tenant)
