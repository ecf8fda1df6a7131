# SPDX-License-Identifier: Apache-2.0
"""A program: run a command in a pod of the runtime handler cgpu, as the kubelet would.

usage: python -m tests.integration.cri_pod IMAGE NAME=VALUE COMMAND...

IMAGE has /busybox. Run by scripts/in-distribution, with containerd at its default socket.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from tests.integration.commands import Outcome
from tests.integration.cri import Cri, RefusedError

SOCKET = Path("/run/containerd/containerd.sock")
NAME = "in-distribution"
PAUSE = ("/busybox", "sleep", "600")


def run(cri: Cri, image: str, variable: str, *command: str) -> Outcome:
    """Run a command in a container with one variable, and remove its pod. Raises RefusedError."""
    name, _, value = variable.partition("=")
    sandbox = cri.sandbox(NAME, "cgpu")
    try:
        return cri.exec(cri.start(sandbox, NAME, image, PAUSE, {name: value}), *command)
    finally:
        cri.remove(sandbox)


def main() -> int:
    with closing(Cri(SOCKET)) as cri:
        try:
            done = run(cri, *sys.argv[1:])
        except RefusedError as error:
            print(error, file=sys.stderr)
            return 1
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
