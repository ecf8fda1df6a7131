# SPDX-License-Identifier: Apache-2.0
"""Controls that nobody judged, and those that are the node's, by whoever has rights in its container.

A list of what is refused has gaps. gVisor's nvproxy, in the same place, lets through what it knows:
https://github.com/google/gvisor/blob/master/g3doc/proposals/nvidia_driver_proxy.md.
"""

from __future__ import annotations

from tests.attacks.arena import Arena
from tests.attacks.attack import attack, verdicts_hold

UNKNOWN = 4000  # of 4096 numbers, some are in the table
# NVIDIA's driver refuses a few by itself before it looks at their parameters: 550.163.01 one of them.
REFUSED_BY_DRIVER = 3


@attack(limit=True)
def unjudged_controls(arena: Arena) -> None:
    """None that is refused or not known reaches the driver, however it is asked, and those that pass do."""
    verdicts_hold(arena, "controls", unknown=UNKNOWN, by_driver=REFUSED_BY_DRIVER)
