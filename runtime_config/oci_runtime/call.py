# SPDX-License-Identifier: Apache-2.0
"""The command line of an OCI runtime, as the launcher has read it (launcher/arguments.c)."""

from __future__ import annotations


class Call:
    """A command line. Treat it as read-only.

    command: create, run or restore; empty where no container is started. unknown: an option that the launcher
    does not know, so that it knows no bundle either; else empty.
    """

    __slots__ = ("bundle", "command", "container", "log", "log_format", "unknown")

    def __init__(
        self,
        command: str = "",
        bundle: str = ".",
        container: str = "",
        log: str = "",
        log_format: str = "text",
        unknown: str = "",
    ) -> None:
        self.command = command
        self.bundle = bundle
        self.container = container
        self.log = log
        self.log_format = log_format
        self.unknown = unknown


FACTS = len(Call.__slots__)
