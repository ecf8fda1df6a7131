# SPDX-License-Identifier: Apache-2.0
"""Build the extender that is compared with, beside the programs of tests/kubernetes/programs.py."""

from __future__ import annotations

from pathlib import Path

from tests.integration.commands import hold_lock
from tests.kubernetes.programs import SMALL, STRIPPED, build_environment, cache, find_go, needed, run

SOURCES = Path(__file__).resolve().parent / "extender"


def extender(version: str) -> Path:
    """Return the extender, which lies beside the components of a version. Raises UnavailableError."""
    target = cache() / version
    with hold_lock(target / "lock"):
        go = find_go(needed([SOURCES / "go.mod"]))
        command = [str(go), "build", *SMALL, STRIPPED, "-o", f"{target}/extender", "."]
        run("the extender from the module proxy (go env GOPROXY)", command, SOURCES, build_environment())
    return target / "extender"


if __name__ == "__main__":
    print(extender("1.36"))
