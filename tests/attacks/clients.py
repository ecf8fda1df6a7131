# SPDX-License-Identifier: Apache-2.0
"""RM clients without end, each with memory of the host that no control group is charged for."""

from __future__ import annotations

from tests.attacks.attack import attack, await_nothing, rest
from tests.attacks.build import client
from tests.attacks.harness import MODULE, Harness

MOST = 1024  # that one container may have
WANTED = 2 * MOST
FEW = 3
NO_RECORD = 0x1A  # NV_ERR_INSUFFICIENT_RESOURCES


@attack(limit=True, engines=(MODULE,))
def clients_that_own_nothing(harness: Harness) -> None:
    """A container gets its part of the clients, a neighbour goes on, and the part can be had again.

    Not with the daemon, which does not see what such a call made (docs/threat-model.md).
    """
    tenant, neighbour = harness.tenant(), harness.tenant()
    running = tenant.start(client("clients"), "--dev", harness.dev, WANTED)
    assert rest(running) == {"made": MOST, "status": NO_RECORD}
    beside = neighbour.start(client("clients"), "--dev", harness.dev, FEW)
    assert rest(beside) == {"made": FEW, "status": 0}
    running.go_on()
    assert rest(running, "again") == {"freed": 0, "made": 0}
    running.finish()
    again = tenant.start(client("clients"), "--dev", harness.dev, FEW)
    assert rest(again) == {"made": FEW, "status": 0}
    for one in (beside, again):
        one.go_on()
        one.finish()
    await_nothing(harness, tenant)
