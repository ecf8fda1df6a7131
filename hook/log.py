# SPDX-License-Identifier: Apache-2.0
"""Events to the system log: one line each, with the container's id and never an environment value."""

from __future__ import annotations

import syslog

from cgpu.errors import one_line

INFO = syslog.LOG_INFO
WARNING = syslog.LOG_WARNING
ERROR = syslog.LOG_ERR


def event(level: int, container: str, text: str) -> None:
    """Log one line about a container. Without a system log nothing happens."""
    syslog.openlog("cgpu-hook", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(level, f"container={one_line(container[:127])} {one_line(text)}")
