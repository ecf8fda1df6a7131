# SPDX-License-Identifier: Apache-2.0
"""The parser of every command line: what is wrong with one is said in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from cgpu import suggest
from cgpu.errors import one_line, show

EXIT_USAGE = 2
UNRECOGNIZED = "unrecognized arguments: "  # argparse's words


class Parser(argparse.ArgumentParser):
    """A parser that names the argument, its value, what is expected, and the command that says more."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        """Take what argparse takes. examples: command lines, which the help shows at its end."""
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def format_help(self) -> str:
        """Return the help with the examples."""
        lines = ["", "examples:", *(f"  {line}" for line in self.examples), ""] if self.examples else []
        return super().format_help() + "\n".join(lines)

    def error(self, message: str) -> NoReturn:
        """Leave with one line on standard error."""
        self.exit(EXIT_USAGE, one_line(f"{self.prog}: {self.explained(message)}") + "\n")

    def explained(self, message: str) -> str:
        """Return what is wrong, the option that was probably meant, and the command that says more."""
        if message.startswith(UNRECOGNIZED):
            word = message.removeprefix(UNRECOGNIZED).partition(" ")[0].partition("=")[0]
            near = suggest.nearest(word, self.long_options()) if word.startswith("--") else None
            message += f"; did you mean {near}?" if near is not None else ""
        return f"{message}{'' if message.endswith('?') else ';'} see: {self.prog} --help"

    def long_options(self) -> list[str]:
        """Return the long options of the command and of its subcommands."""
        found: list[str] = []
        for action in self._actions:
            found += [name for name in action.option_strings if name.startswith("--")]
            inner = action.choices.values() if isinstance(action.choices, dict) else ()
            found += [name for one in inner if isinstance(one, Parser) for name in one.long_options()]
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(one) for one in action.choices]
        meant = suggest.expected(str(value), known, "") or f"is none of {len(known)} choices"
        raise argparse.ArgumentError(action, f"{show(str(value))}: {meant}")


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
