# SPDX-License-Identifier: Apache-2.0
"""The parser of every command line: what is wrong with one is said in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from cgpu.errors import one_line

EXIT_USAGE = 2


class Parser(argparse.ArgumentParser):
    """A parser that names the argument, its value, what is expected, and the command that says more."""

    def error(self, message: str) -> NoReturn:
        """Leave with one line on standard error."""
        self.exit(EXIT_USAGE, one_line(f"{self.prog}: {message}; see: {self.prog} --help") + "\n")


def seconds(least: float, most: int) -> Callable[[str], float]:
    """Return the type of an argument that is a time in seconds within bounds."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected seconds between {least} and {most}")
        return value

    return read
