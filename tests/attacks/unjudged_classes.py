# SPDX-License-Identifier: Apache-2.0
"""Objects of classes that nobody judged, and of those that are the node's: profilers, registers, fabric.

gVisor's nvproxy, in the same place, lets through the classes that it knows:
https://github.com/google/gvisor/blob/master/pkg/sentry/devices/nvproxy/version.go.
"""

from __future__ import annotations

from tests.attacks.arena import Arena
from tests.attacks.attack import attack, verdicts_hold

UNKNOWN = 2000  # of 2048 numbers, some may be in the table


@attack(limit=True)
def unjudged_classes(arena: Arena) -> None:
    """None that is refused or not known reaches the driver, by whichever call, and those that pass do."""
    verdicts_hold(arena, "classes", unknown=UNKNOWN)
