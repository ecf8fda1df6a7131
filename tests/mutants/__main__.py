# SPDX-License-Identifier: Apache-2.0
"""Apply small faults, one at a time, and say which test catches each.

A mutant is a file FOLDER/NAME.patch here: a diff below the lines "Fault:", "Harm:" and "Tests:". The fault is
applied to a layer of memory over a checkout, seen by the processes of its own try alone, so the checkout
stays as it is. The tests that its third line names run there until one fails. The mutant is caught if that
one passes without it. This takes root.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutant import Mutant, read_mutants
from tests.mutants.trial import try_mutant

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants; return 1 if one was not caught or could not be tried."""
    asked = parser().parse_args(arguments)
    known = {mutant.name: mutant for mutant in read_mutants()}
    unknown = ", ".join(name for name in asked.names if name not in known)
    if unknown:
        print(f"mutants: {unknown}: unknown; find tests/mutants -name '*.patch' lists all", file=sys.stderr)
        return 2
    mutants = [known[name] for name in asked.names or known]
    if os.geteuid() != 0:
        print("mutants: the caller is not root; a layer over the checkout takes root", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(asked.at_once) as pool:
        caught = list(pool.map(lambda mutant: run(mutant, asked), mutants))
    print(f"mutants: {sum(caught)} of {len(caught)} caught")
    return 0 if all(caught) else 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    made.add_argument("names", nargs="*", metavar="NAME", help="FOLDER/NAME of a mutant; all without")
    made.add_argument("--checkout", type=Path, default=ROOT, help="a prepared checkout (this one)")
    made.add_argument("--at-once", type=int, default=1, help="how many are tried at once (1)")
    made.add_argument(
        "--lane-test", action="store_true", help="run only what make test runs of the named tests"
    )
    return made


def run(mutant: Mutant, asked: argparse.Namespace) -> bool:
    """Try a mutant and print a line; say whether it was caught."""
    began = time.monotonic()
    state, failed = try_mutant(mutant, asked.checkout.resolve(), lane_test=asked.lane_test)
    print(f"{mutant.name}\t{state}\t{failed}\t{time.monotonic() - began:.0f} s", flush=True)
    return state == "caught"


if __name__ == "__main__":
    sys.exit(main())
