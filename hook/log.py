# SPDX-License-Identifier: Apache-2.0
"""Events to the system log: one line each, with the container's id and never an environment value."""

from __future__ import annotations

import syslog

from cgpu.errors import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = "cgpu-hook"
INFO = syslog.LOG_INFO
WARNING = syslog.LOG_WARNING
ERROR = syslog.LOG_ERR


def event(
    level: int, container: str, text: str, form: str = "text", fields: Mapping[str, str | int] | None = None
) -> None:
    """Log one line about a container. Without a system log nothing happens.

    form: the node's log_format. fields: further fields of a structured line.
    """
    if form != "text":
        from cgpu import log_lines

        known = {"id": container[:127], **(fields or {})}
        if form == "journal" and log_lines.to_journal(level, PROGRAM, text, known):
            return
        if form == "json":
            _send(level, log_lines.as_json(level, PROGRAM, text, known))
            return
    _send(level, f"container={one_line(container[:127])} {one_line(text)}")


def _send(level: int, line: str) -> None:
    syslog.openlog(PROGRAM, syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(level, line)
