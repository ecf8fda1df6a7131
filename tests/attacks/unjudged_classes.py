# SPDX-License-Identifier: Apache-2.0
"""Objects of classes that nobody judged, and of those that are the node's: profilers, registers, fabric.

gVisor's nvproxy, in the same place, lets through the classes that it knows:
https://github.com/google/gvisor/blob/master/pkg/sentry/devices/nvproxy/version.go.
"""

from __future__ import annotations

import json
from collections import Counter

from tests.attacks.arena import Arena
from tests.attacks.attack import attack, await_nothing, rest
from tests.attacks.build import client
from tests.vm.store import ROOT

STRANGERS = 2000  # of 2048 numbers, some may be in the table


@attack(limit=True)
def unjudged_classes(arena: Arena) -> None:
    """None that is refused or not known reaches the driver, by whichever call, and those that pass do."""
    table = json.loads((ROOT / "kmod" / "abi" / "classes.json").read_text())["classes"]
    verdicts = Counter(row["verdict"] for row in table.values())
    tenant = arena.tenant()
    running = tenant.start(client("classes"), "--dev", arena.dev)
    told = rest(running, "tried")
    assert told["reached"] == 0, told
    assert told["refused"] == verdicts["refuse"], told
    assert told["passed"] == verdicts["pass"], told
    assert told["strangers"] >= STRANGERS, told
    running.go_on()
    running.finish()
    await_nothing(arena, tenant)
