# SPDX-License-Identifier: Apache-2.0
"""The command line of an OCI runtime, as runc (Go flags: one or two dashes) and crun (getopt) read it.

The C launcher has the same tables (launcher/arguments.c); a test compares the two.
"""

from __future__ import annotations

from cgpu.errors import CgpuError, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GLOBAL = {
    "root": True,
    "log": True,
    "log-format": True,
    "log-level": True,
    "criu": True,
    "rootless": True,
    "cgroup-manager": True,
    "debug": False,
    "systemd-cgroup": False,
}
START = {
    "bundle": True,
    "b": True,
    "console-socket": True,
    "pid-file": True,
    "preserve-fds": True,
    "no-pivot": False,
    "no-new-keyring": False,
    "no-subreaper": False,
    "detach": False,
    "d": False,
    "keep": False,
}
TEXTS = ("help", "h", "version", "v")
COMMANDS = ("create", "run", "restore")


class Call:
    """A command line. command is one of COMMANDS, or empty: then it starts no container."""

    __slots__ = ("bundle", "command", "container", "log", "log_format")

    def __init__(self) -> None:
        """Start as a call that starts no container."""
        self.bundle = "."
        self.command = ""
        self.container = ""
        self.log = ""
        self.log_format = "text"


def read(arguments: Sequence[str], call: Call) -> None:
    """Read a command line into a fresh call, which has the log's place also when this raises.

    Raises CgpuError when it starts a container in a layout that is not known here.
    """
    options: dict[str, str] = {}
    try:
        at = _read_options(arguments, 0, GLOBAL, options)
    finally:
        call.log = options.get("log", "")
        call.log_format = options.get("log-format", "text")
    if at is None or at == len(arguments) or arguments[at] not in COMMANDS:
        return
    options = {}
    end = _read_options(arguments, at + 1, START, options)
    if end is None:
        return
    call.command = arguments[at]
    call.bundle = options.get("bundle", ".")
    call.container = arguments[end] if end < len(arguments) else ""


def _read_options(
    arguments: Sequence[str], at: int, known: dict[str, bool], options: dict[str, str]
) -> int | None:
    """Collect options and return where they end; None where no container can be started. Raises CgpuError."""
    while at < len(arguments) and len(arguments[at]) > 1 and arguments[at][0] == "-":
        if arguments[at] == "--":
            return at + 1
        name, equals, value = arguments[at][2 if arguments[at][1] == "-" else 1 :].partition("=")
        if name in TEXTS and not equals:
            return None
        takes = name in known and known[name] and not equals
        if name not in known or (takes and at + 1 == len(arguments)):
            _refuse_start(arguments, at)
            return None
        options["bundle" if name == "b" else name] = arguments[at + 1] if takes else value
        at += 2 if takes else 1
    return at


def _refuse_start(arguments: Sequence[str], at: int) -> None:
    """Raise CgpuError unless it is certain that no container is started."""
    if any(argument in COMMANDS for argument in arguments):
        expected = ", --".join(sorted(name for name in {**GLOBAL, **START} if len(name) > 1))
        raise CgpuError(
            f"option {show(arguments[at])}: not known here, so the place of the bundle is unknown; "
            f"expected --{expected}"
        )
