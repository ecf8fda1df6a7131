# SPDX-License-Identifier: Apache-2.0
"""The parser of every command line: what is wrong with one is said in one line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from cgpu.errors import one_line

EXIT_USAGE = 2


class Parser(argparse.ArgumentParser):
    """A parser that names the argument, its value, what is expected, and the command that says more."""

    def error(self, message: str) -> NoReturn:
        """Leave with one line on standard error."""
        self.exit(EXIT_USAGE, one_line(f"{self.prog}: {message}; see: {self.prog} --help") + "\n")
