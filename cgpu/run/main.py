# SPDX-License-Identifier: Apache-2.0
"""cgpu run: its command line, from arguments to exit status, and the only place that prints."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from cgpu import suggest
from cgpu.arguments import Parser, plain
from cgpu.errors import CgpuError, one_line, show
from cgpu.run.child import FAILED, StartError
from cgpu.run.session import run
from cgpu.slice import BESIDE_MEMORY

USAGE = " ".join(
    (
        "cgpu run [--mem SIZE]",
        *(f"[{one.option}]" if one.words else f"[{one.option} N]" for one in BESIDE_MEMORY),
        "[--gpus LIST] -- COMMAND [ARGUMENT ...]",
    )
)
SEPARATOR = "--"
HELP = {
    "mem": "memory on each GPU: 6G, 6GiB and 6GB are all 6 GiB, M, K and T alike, a number alone is bytes, "
    "40%% is a part of each card; "
    "whole MiB of it count; a comma list gives the GPUs their sizes in order, the last one repeats (default: "
    "the node's default_memsize)",
    "gpus": "which GPUs: indexes or UUIDs with commas, or all (default: the node's only GPU)",
}
OPTIONS = (*("--" + name for name in HELP), *(one.option for one in BESIDE_MEMORY))
TAKE_A_VALUE = (
    "--mem",
    "--memory",
    "--gpus",
    *(one.option for one in BESIDE_MEMORY if not one.words),
)
NEGATIVE = re.compile("-[0-9]")
# Options that other programs have for the same.
OTHER_WORDS = {
    "-m": "--mem",
    "-g": "--gpus",
    "--device": "--gpus",
    "--devices": "--gpus",
    "--priority": "--high-prio",
    "--size": "--mem",
    "--simulate": "cgpud --simulate",
}
EPILOG = (
    "Exit status: the command's; 128 and the signal's number when a signal ended it; 125 when the slice "
    "cannot be had, 126 when the command cannot be run, 127 when there is no such command."
)
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options:
    """The command line's options as written; None where one is missing.

    values: attributes of the slice that are asked for, by their names.
    """

    command: tuple[str, ...]
    mem: str | None = None
    gpus: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise CgpuError(f"{plain(message)}; expected: {USAGE}")


def parser() -> Parser:
    """Return the parser of what stands before the command."""
    made = _Parser(
        prog="cgpu run",
        usage=USAGE,
        allow_abbrev=False,
        description="Run a command, and all that it starts, in a slice of a GPU. Needs root.",
        epilog=EPILOG,
        examples=(
            "cgpu run --mem 6G -- python3 train.py",
            "cgpu run --mem 4G,8G --gpus 0,1 --weight 2 -- nvidia-smi",
            "cgpu run --mem 40%% -- cgpu-smi",
        ),
    )
    made.add_argument("--mem", "--memory", metavar="SIZE", help=HELP["mem"])
    for one in BESIDE_MEMORY:
        if one.words:
            words = f"{one.shown(1)} {one.title.lower()}"
            made.add_argument(one.option, dest=one.name, action="store_const", const="1", help=words)
        else:
            form = one.expected.removeprefix("expected ")
            words = f"{one.says}: {form} (default {one.default})"
            made.add_argument(one.option, dest=one.name, metavar="N", help=words)
    made.add_argument("--gpus", metavar="LIST", help=HELP["gpus"])
    return made


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line. Raises CgpuError; --help prints and exits."""
    words = list(arguments)
    end = words.index(SEPARATOR) if SEPARATOR in words else len(words)
    found, extra = parser().parse_known_args(_with_values(words[:end]))
    if extra:
        raise CgpuError(f"{_unknown(extra[0], separated=end < len(words))}; expected: {USAGE}")
    command = tuple(words[end + 1 :])
    if not command:
        raise CgpuError(f"there is no command behind --; expected: {USAGE}")
    said = {one.name: getattr(found, one.name) for one in BESIDE_MEMORY}
    values = {name: text for name, text in said.items() if text is not None}
    return Options(command, found.mem, found.gpus, values)


def _with_values(words: Sequence[str]) -> list[str]:
    """Return words in which -6G behind an option is its value: errors in it are reported later."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in TAKE_A_VALUE and NEGATIVE.match(word):
            joined[-1] = f"{joined[-1]}={word}"
        else:
            joined.append(word)
    return joined


def _unknown(word: str, *, separated: bool) -> str:
    """Return what is wrong with a word before the command, as the begin of a message."""
    if not word.startswith("-"):
        if separated:
            return f"{show(word)}: stands before --, and belongs to no option; a value has no blanks"
        return f"{show(word)}: is no option; write -- before the command"
    name = word.partition("=")[0]
    near = OTHER_WORDS.get(name) or suggest.nearest(name, OPTIONS)
    return f"{show(word)}: is no option" + (f", did you mean {near}?" if near is not None else "")


def main(arguments: Sequence[str]) -> int:
    """Run a command in a slice. Returns its exit status; 125 to 127 after one line when it never ran."""
    try:
        outcome = run(parse(arguments))
    except StartError as error:
        return _say(str(error), error.status)
    except CgpuError as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _say(f"unexpected {type(error).__name__}: {error}", FAILED)
    for line in outcome.left:
        _say(line, outcome.status)
    return outcome.status


def _say(line: str, status: int) -> int:
    print(f"cgpu run: {one_line(line)}", file=sys.stderr)
    return status
