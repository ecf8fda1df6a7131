# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes registered`: the startup probe of an agent's pod.

A rolling update ends the old agent when the new one is ready: not before the kubelet calls the new one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cgpu.arguments import Parser
from cgpu.kubernetes.node.sockets import Sockets


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = Parser(
        prog="cgpu kubernetes registered", description="Say whether the kubelet knows the agent of a pod."
    )
    found.add_argument(
        "--pod-uid", metavar="UID", default=os.environ.get("POD_UID", ""), help="of the agent's pod (POD_UID)"
    )
    found.add_argument("--kubelet", metavar="DIR", type=Path, default=Path("/var/lib/kubelet"))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 where it does, 1 after one line where not."""
    options = parser().parse_args(arguments)
    if Sockets.of(options.kubelet, options.pod_uid).registered.exists():
        return 0
    print("cgpu kubernetes registered: the kubelet does not know this agent yet", file=sys.stderr)
    return 1
