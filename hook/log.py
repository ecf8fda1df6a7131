# SPDX-License-Identifier: Apache-2.0
"""Lines to the system log, of containers that were refused or not removed; none has an environment value."""

from __future__ import annotations

import syslog

from cgpu.errors import CgpuError, one_line

PROGRAM = "cgpu-hook"
WARNING = syslog.LOG_WARNING
ERROR = syslog.LOG_ERR


class LoggableError(CgpuError):
    """An error whose message has no value of the container's environment."""


def event(level: int, container: str, text: str, form: str = "text") -> None:
    """Log one line about a container. Without a system log nothing happens.

    form: the node's log_format.
    """
    if form != "text":
        from cgpu import log_lines

        known = {"id": container[:127]}
        if form == "journal" and log_lines.to_journal(level, PROGRAM, text, known):
            return
        if form == "json":
            _send(level, log_lines.as_json(level, PROGRAM, text, known))
            return
    _send(level, f"container={one_line(container[:127])} {one_line(text)}")


def _send(level: int, line: str) -> None:
    syslog.openlog(PROGRAM, syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(level, line)
