# SPDX-License-Identifier: Apache-2.0
"""The facts of a machine that installing, checking and explaining are about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cgpu.install.node.facts import driver, kernel, ours, programs, software
from cgpu.install.node.facts.driver import Driver
from cgpu.install.node.facts.kernel import Kernel
from cgpu.install.node.facts.ours import Ours
from cgpu.install.node.facts.software import Sharing, Software


@dataclass(frozen=True, slots=True)
class Node:
    """A machine as it is now."""

    root: Path
    kernel: Kernel
    driver: Driver
    sharing: Sharing
    software: Software
    ours: Ours


def gather(root: Path = Path("/")) -> Node:
    """Gather the facts of the machine below a root. Changes nothing; an unknown fact is None.

    Programs are asked only where the root is this machine's own.
    """
    running = programs.processes(root)
    found = kernel.gather(root)
    return Node(
        root=root,
        kernel=found,
        driver=driver.gather(root, found.release),
        sharing=software.sharing(root, running),
        software=software.gather(root, running),
        ours=ours.gather(root, running),
    )
