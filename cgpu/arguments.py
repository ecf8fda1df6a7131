# SPDX-License-Identifier: Apache-2.0
"""The parser of every command line: an error in one is one line."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from cgpu import suggest
from cgpu.errors import CgpuError, one_line, show

EXIT_FAILED = 1
EXIT_USAGE = 2
# argparse's words, and ours for the same.
UNRECOGNIZED = "unrecognized arguments: "
IGNORED = re.compile(r"ignored explicit argument ('.*')$")
ONE_MISSING = "expected one argument"


class Parser(argparse.ArgumentParser):
    """A parser that names the argument, its value, what is expected, and the command that says more."""

    def __init__(
        self,
        *arguments: Any,
        examples: Sequence[str] = (),
        meant: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """Take what argparse takes. examples: command lines, which the help shows at its end.

        meant: replacements for words that users of other programs would write here.
        """
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)
        self.meant = dict(meant or {})

    def format_help(self) -> str:
        """Return the help with the examples."""
        lines = ["", "examples:", *(f"  {line}" for line in self.examples), ""] if self.examples else []
        return super().format_help() + "\n".join(lines)

    def error(self, message: str) -> NoReturn:
        """Leave with one line on standard error."""
        self.exit(EXIT_USAGE, one_line(f"{self.prog}: {self.explained(message)}") + "\n")

    def explained(self, message: str) -> str:
        """Return what is wrong, the option that was probably meant, and the command that says more."""
        message = plain(message)
        if message.startswith(UNRECOGNIZED):
            word = message.removeprefix(UNRECOGNIZED).partition(" ")[0].partition("=")[0]
            near = self.meant.get(word)
            if near is None and word.startswith("--"):
                near = suggest.nearest(word, self.long_options())
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
        near = self.meant.get(str(value))
        if near is not None:
            meant = f"expected {suggest.one_of(known)}; did you mean {near}?"
        else:
            meant = suggest.expected(str(value), known, "") or f"expected {suggest.one_of(known)}"
        raise argparse.ArgumentError(action, f"{show(str(value))}: {meant}")


def plain(message: str) -> str:
    """Return what argparse says of an option's value in words that say what is expected."""
    return IGNORED.sub(r"\1: expected no value", message).replace(ONE_MISSING, "expected a value behind it")


def exit_status(prog: str, action: Callable[[], object], say: Callable[[str], object] | None = None) -> int:
    """Do what a command line says: 0, also when interrupted, or 1 after one line on standard error.

    say: where the line goes instead, such as to the log of a service.
    """
    try:
        action()
    except CgpuError as error:
        if say is not None:
            say(str(error))
        else:
            print(f"{prog}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 0
    return 0


def seconds(least: float, most: int) -> Callable[[str], float]:
    """Return the type of an argument that is a time in seconds within bounds."""

    def read(text: str) -> float:
        try:
            # float() reads 1_0, and digits of other scripts.
            value = float(text) if text.isascii() and "_" not in text else least - 1
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected seconds between {least} and {most}")
        return value

    return read
