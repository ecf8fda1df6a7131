# SPDX-License-Identifier: Apache-2.0
"""The daemon's log: where its lines go, and in which form."""

from __future__ import annotations

import logging
import logging.handlers
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cgpu import log_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cgpu.config.effective import Effective

COMPONENT: Final = "cgpud"
BYTES: Final = 1 << 20
# The engine begins its lines so.
CONTAINER: Final = re.compile(r"container ([A-Za-z0-9_.+-]{1,127})(?=: | registered on | removed$)")
GPU: Final = re.compile(r"\bGPU ([0-9]{1,4})\b(?: \((GPU-[0-9A-Za-z-]{1,64})\))?")
PRIORITIES: Final = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


class _Log(logging.Handler):
    """The one handler of this process: hands lines on to where they go, in a form that may change."""

    def __init__(self, path: Path, *, foreground: bool) -> None:
        super().__init__()
        self.form = "text"
        self._file: logging.Handler | None = None
        if foreground:
            self._handlers = [self._formed(logging.StreamHandler(sys.stderr), "cgpud: %(message)s")]
            return
        style = "%(asctime)s cgpud[%(process)d] %(levelname)s %(message)s"
        self._file = self._formed(logging.handlers.RotatingFileHandler(path, "a", BYTES, 1), style)
        self._handlers = [self._file]
        if Path("/dev/log").exists():
            syslog = logging.handlers.SysLogHandler("/dev/log")
            self._handlers.append(self._formed(syslog, style, f"{COMPONENT}[{os.getpid()}]: "))

    def emit(self, record: logging.LogRecord) -> None:
        # Where the journal takes no line, it goes to standard error, which may be the journal's, too.
        in_journal = self.form == "journal" and log_lines.to_journal(*_parts(record))
        for handler in self._handlers:
            if handler is self._file or not in_journal:
                handler.handle(record)

    def close(self) -> None:
        for handler in self._handlers:
            handler.close()
        super().close()

    def _formed(self, handler: logging.Handler, style: str, before: str = "") -> logging.Handler:
        handler.setFormatter(_Formatter(self, style, before))
        return handler


class _Formatter(logging.Formatter):
    """Forms a line as its log has it. before: stands before an object."""

    def __init__(self, log: _Log, style: str, before: str) -> None:
        super().__init__(style)
        self._log = log
        self._before = before

    def format(self, record: logging.LogRecord) -> str:
        if self._log.form == "json":
            return self._before + log_lines.as_json(*_parts(record))
        return super().format(record)


def start(path: Path, *, foreground: bool) -> None:
    """Log to standard error: a terminal, or the journal.

    In the background: to a file that does not grow past a bound, and to syslog where there is one.
    """
    logging.basicConfig(level=logging.INFO, handlers=[_Log(path, foreground=foreground)], force=True)


def follow(config: Effective) -> None:
    """Have the form and the level that a configuration says."""
    set_form(config.log_format)
    logging.getLogger().setLevel(config.log_level.upper())


def set_form(form: str) -> None:
    """Have the lines in the form that the configuration says. Nothing happens in a process without a log."""
    log = _log()
    if log is not None:
        log.form = form


def _log() -> _Log | None:
    return next((one for one in logging.getLogger().handlers if isinstance(one, _Log)), None)


def event(kind: str, fields: Mapping[str, str | int]) -> None:
    """Log an event, where lines have fields. As text it is in the event log alone."""
    log = _log()
    if log is None or log.form == "text":
        return
    gpu = f"GPU {fields['gpu']}: " if "gpu" in fields else ""
    of = f"{gpu}slice of container {fields['id']} " if "id" in fields else gpu
    text = fields.get("message", f"{of}{kind}")
    logging.getLogger(__name__).info("%s", text, extra={"fields": {**fields, "event": kind}})


def fields_of(record: logging.LogRecord) -> dict[str, str | int]:
    """Return the container and the GPU of a line: those that it was given, or those that its words name."""
    given = getattr(record, "fields", None)
    if isinstance(given, dict):
        return {key: value for key, value in given.items() if key != "message"}
    text = record.getMessage()
    found: dict[str, str | int] = {}
    container = CONTAINER.match(text)
    if container is not None:
        found["id"] = container[1]
    gpus = set(GPU.findall(text))
    if len(gpus) == 1:
        index, uuid = gpus.pop()
        found["gpu"] = int(index)
        if uuid:
            found["uuid"] = uuid
    return found


def _parts(record: logging.LogRecord) -> tuple[int, str, str, dict[str, str | int]]:
    """Return severity, program, text and fields of a line."""
    priority = next((number for level, number in PRIORITIES if record.levelno >= level), 7)
    text = record.getMessage()
    if record.exc_info:
        text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    return priority, COMPONENT, text, fields_of(record)
