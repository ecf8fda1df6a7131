# SPDX-License-Identifier: Apache-2.0
"""Errors where people look: on stderr, and in the log file that container engines take them from."""

from __future__ import annotations

import os
import sys
import time

NAME = "cgpu-container-runtime"


def report(message: str, log: str, log_format: str) -> None:
    """Write one line to stderr and, in runc's form, to the log file (an empty path: none)."""
    os.write(2, f"{NAME}: {message}\n".encode("ascii", "backslashreplace"))
    path = log.removeprefix("file:")
    # crun takes other destinations too; there stderr has to do.
    if not path or path.startswith(("journald:", "syslog:")):
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError:
        return
    try:
        os.write(fd, _line(message, log_format))
    except OSError as error:
        sys.stderr.write(f"{NAME}: {path}: {error.strerror}\n")
    finally:
        os.close(fd)


def _line(message: str, log_format: str) -> bytes:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if log_format == "json":
        from cgpu.runtime_config.oci_runtime.spec_json import dumps

        return dumps({"level": "error", "msg": message, "time": moment})
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    return f'time="{moment}" level=error msg="{quoted}"\n'.encode("ascii", "backslashreplace")
