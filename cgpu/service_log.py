# SPDX-License-Identifier: Apache-2.0
"""Log lines of a service that writes to standard error: the exporter, and the parts of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from cgpu import log_lines
from cgpu.config import effective
from cgpu.errors import CgpuError, one_line

ERROR: Final = 3
WARNING: Final = 4
INFO: Final = 6
Fields = Mapping[str, str | int]


class Say(Protocol):
    """Writes a line to a log. level: as syslog(3) has it. fields: further fields of a structured line."""

    def __call__(self, text: str, level: int = INFO, fields: Fields | None = None) -> None: ...


def node_form() -> str:
    """Return the node's log_format, text where its configuration cannot be read."""
    try:
        return effective.load().log_format
    except CgpuError:
        return "text"


@dataclass(frozen=True, slots=True)
class ServiceLog:
    """The log of a service, in the form of the moment. begin: of each line as text."""

    component: str
    begin: str = ""
    form: Callable[[], str] = node_form

    def __call__(self, text: str, level: int = INFO, fields: Fields | None = None) -> None:
        """Write a line."""
        form = self.form()
        if form == "journal" and log_lines.to_journal(level, self.component, text, fields or {}):
            return
        line = f"{self.begin}{one_line(text)}"
        if form == "json":
            line = log_lines.as_json(level, self.component, text, fields or {})
        print(line, file=sys.stderr, flush=True)
