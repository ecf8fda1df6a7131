# SPDX-License-Identifier: Apache-2.0
"""cgpu smi: cgpu-smi as a subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cgpu.smi import main as smi
from cgpu.smi import options

PROGRAM = "cgpu smi"


def parser() -> argparse.ArgumentParser:
    return options.parser(PROGRAM)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cgpu-smi. Returns 0, or 1 after one line on stderr; wrong usage exits with 2."""
    return smi.main(arguments, PROGRAM)
