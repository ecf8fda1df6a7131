# SPDX-License-Identifier: Apache-2.0
"""`kubectl-inspect-cgpu`, which kubectl finds on the PATH for `kubectl inspect cgpu`."""

from __future__ import annotations

import argparse
import sys

from cgpu.errors import CgpuError
from cgpu.kubernetes.main import part

PROGRAM = "kubectl-inspect-cgpu"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments. Raises CgpuError when a library is missing."""
    found: argparse.ArgumentParser = part("inspect").parser(PROGRAM)
    return found


def main() -> int:
    """Run the command; 0, or 1 after one line on standard error."""
    try:
        status: int = part("inspect").main(sys.argv[1:], PROGRAM)
    except CgpuError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    return status
