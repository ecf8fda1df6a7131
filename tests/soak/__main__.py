# SPDX-License-Identifier: Apache-2.0
"""Registers, refuses, kills and upgrades for long, and says whether anything is left, or memory grew.

usage: python -m tests.soak cgpud|cgpu_km [--part N] [--no-write]

As root. cgpud runs on a simulated card of this machine; cgpu_km on the fake driver, in a virtual machine.
All of it takes from ten minutes to hours; --part 10 does a tenth. The table goes into tests/soak/RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from tests.soak.flow import Counts, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("engine", choices=("cgpud", "cgpu_km"))
    parser.add_argument("--part", type=int, default=1, metavar="N", help="do one of N parts (1)")
    parser.add_argument("--no-write", action="store_true", help="only print the table")
    options = parser.parse_args()
    whole = Counts()
    counts = Counts(whole.registrations // options.part, whole.lives // options.part)
    with importlib.import_module(f"tests.soak.{options.engine}").started() as engine:
        result = soak(engine, options.engine, counts, seed=1)
    print(result.table())
    if not options.no_write:
        result.write()
    return 1 if list(result.faults()) else 0


if __name__ == "__main__":
    sys.exit(main())
