# SPDX-License-Identifier: Apache-2.0
"""cgpu: one command with subcommands. Each is imported when it is called."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cgpu import __version__
from cgpu.errors import show

EXIT_USAGE = 2
EXIT_PIPE = 141  # as of a program that SIGPIPE has ended
EXIT_OUTPUT = 1
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One part of the command.

    module: it has `main(arguments)`, which returns the exit status, and `parser()`, of which the manual page
    and the completion of the shells are made. does: one line for the help.
    """

    module: str
    does: str


# In the order of the help: first what a newcomer needs.
SUBCOMMANDS = {
    "status": Subcommand(
        "cgpu.install.commands.status", "show the engine, its GPUs, and whether containers can start"
    ),
    "doctor": Subcommand("cgpu.install.commands.doctor", "check this node, and say which command helps"),
    "install": Subcommand("cgpu.install.commands.install", "make this machine a node that slices GPUs"),
    "top": Subcommand("cgpu.top.main", "show cards and slices live in the terminal"),
    "events": Subcommand("cgpu.events.main", "show which slices started, were refused and ended"),
    "run": Subcommand(
        "cgpu.run.main", "run a command and all that it starts in a slice, without a container"
    ),
    "smi": Subcommand("cgpu.smi.main", "show the GPUs, the slices of containers, and their processes"),
    "config": Subcommand("cgpu.install.commands.config", "show, check, set and explain the configuration"),
    "gc": Subcommand("cgpu.install.commands.gc", "remove registrations whose container is gone"),
    "upgrade": Subcommand(
        "cgpu.install.commands.upgrade.main", "have the installed version take over from the engine that runs"
    ),
    "uninstall": Subcommand("cgpu.install.commands.uninstall", "take back what install has done"),
    "check-driver": Subcommand(
        "cgpu.check_driver.main", "check whether the driver understands its calls as the engine takes them"
    ),
    "support-bundle": Subcommand(
        "cgpu.install.commands.support_bundle", "pack what support needs to see, without secrets"
    ),
    "abi": Subcommand("cgpu.kmod.abi.main", "keep the tables of the driver's interface, for developers"),
    "exporter": Subcommand("cgpu.exporter.main", "serve metrics of this node to Prometheus"),
    "kubernetes": Subcommand("cgpu.kubernetes.main", "the parts of a cluster, such as the agent of a node"),
}
# Words of other programs, with ours for the same.
MEANT = {
    "ps": "cgpu-smi",
    "list": "cgpu-smi",
    "ls": "cgpu-smi",
    "start": "cgpud",
    "stop": "cgpud --stop",
    "remove": "cgpu uninstall",
    "help": "cgpu --help",
    "version": "cgpu --version",
    "-v": "cgpu --version",
    "-V": "cgpu --version",
    "--mem": "cgpu run --mem",
    "--gpus": "cgpu run --gpus",
    "--simulate": "cgpud --simulate",
}
EXAMPLES = (
    ("cgpu install", "once; cgpu uninstall takes it back"),
    ("cgpu status", "can containers with a slice start, and if not, why?"),
    ("cgpu doctor", "what is wrong with this node, and which command helps?"),
    ("cgpu run --mem 6G -- cgpu-smi", "a command in a slice, without a container"),
)


def usage() -> str:
    lines = [f"  {name:<16}{subcommand.does}" for name, subcommand in SUBCOMMANDS.items()]
    examples = [f"  {command:<31}# {why}" for command, why in EXAMPLES]
    head = "usage: cgpu [--help | --version] SUBCOMMAND ..."
    return "\n".join([head, "", *lines, "", "examples:", *examples, "", "Each has a --help of its own."])


def _run(module: str, words: list[str]) -> int:
    try:
        status: int = importlib.import_module(module).main(words)
        sys.stdout.flush()
    except BrokenPipeError:
        return _hushed(EXIT_PIPE)
    except OSError as error:
        if error.filename is not None or error.errno not in NO_ROOM:
            raise
        print(f"cgpu: standard output: {error.strerror}", file=sys.stderr)
        return _hushed(EXIT_OUTPUT)
    return status


def _hushed(status: int) -> int:
    """Return a status, with standard output closed to Python: its flush at exit must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
    return status


def _streams() -> None:
    """Have all three standard streams, which print whatever comes.

    One that the caller has closed is None to Python, and its number is given to the next file that is opened:
    the lock, a record. A locale that lacks a character must not end a command in the middle of its work.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if fd != number:
            os.dup2(fd, number)
            os.close(fd)
        os.set_inheritable(number, True)
        # Open for as long as the process lives, as the stream that it stands for.
        setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand and return its exit status; 2 after one line on stderr when there is none."""
    _streams()
    words = sys.argv[1:] if arguments is None else list(arguments)
    name = words[0] if words else ""
    if name in SUBCOMMANDS:
        return _run(SUBCOMMANDS[name].module, words[1:])
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name == "--version":
        print(f"cgpu {__version__}")
        return 0
    print(f"cgpu: {_misspelt(name) if words else 'no subcommand; see: cgpu --help'}", file=sys.stderr)
    return EXIT_USAGE


def _misspelt(name: str) -> str:
    from cgpu import suggest

    is_option = name.startswith("-")
    if name.partition("=")[0] in MEANT:
        kind = "option" if is_option else "subcommand"
        return (
            f"there is no {kind} {show(name)}; did you mean {MEANT[name.partition('=')[0]]}? see: cgpu --help"
        )
    near = suggest.nearest(name, ("--help", "--version") if is_option else tuple(SUBCOMMANDS))
    meant = f" did you mean {near}?" if near is not None else ""
    return f"there is no {'option' if is_option else 'subcommand'} {show(name)};{meant} see: cgpu --help"


if __name__ == "__main__":
    sys.exit(main())
