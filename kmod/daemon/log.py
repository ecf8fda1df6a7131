# SPDX-License-Identifier: Apache-2.0
"""The daemon's log: where its lines go, and in which form."""

from __future__ import annotations

import logging
import logging.handlers
import os
import re
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cgpu import log_lines, paths

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        self._path = path
        self._foreground = foreground
        self.form = "text"
        self._handlers = self._made()

    def emit(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            handler.handle(record)

    def close(self) -> None:
        for handler in self._handlers:
            handler.close()
        super().close()

    def set_form(self, form: str) -> None:
        with self.lock or nullcontext():
            before, self.form = self._handlers, form
            self._handlers = self._made()
        for handler in before:
            handler.close()

    def _made(self) -> list[logging.Handler]:
        journal = self.form == "journal" and Path(paths.JOURNAL).is_socket()
        handlers: list[logging.Handler] = [_JournalHandler()] if journal else []
        if self._foreground:
            return handlers or [self._formed(logging.StreamHandler(sys.stderr), "cgpud: %(message)s")]
        style = "%(asctime)s cgpud[%(process)d] %(levelname)s %(message)s"
        if not journal and Path("/dev/log").exists():
            syslog = logging.handlers.SysLogHandler("/dev/log")
            # Before the object: in the form as text it is a part of each line.
            syslog.ident = f"{COMPONENT}[{os.getpid()}]: " if self.form == "json" else ""
            handlers.append(self._formed(syslog, style))
        file = _FileHandler(self._path, "a", BYTES, 1)
        return [self._formed(file, style), *handlers]

    def _formed(self, handler: logging.Handler, style: str) -> logging.Handler:
        handler.setFormatter(_JsonFormatter() if self.form == "json" else logging.Formatter(style))
        return handler


def start(path: Path, *, foreground: bool) -> None:
    """Log to standard error: a terminal, or the journal.

    In the background: to a file that does not grow past a bound, and to syslog where there is one.
    """
    logging.basicConfig(level=logging.INFO, handlers=[_Log(path, foreground=foreground)], force=True)


def set_form(form: str) -> None:
    """Have the lines in the form that the configuration says. Nothing happens in a process without a log."""
    log = _log()
    if log is not None and log.form != form:
        log.set_form(form)


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


def _priority(record: logging.LogRecord) -> int:
    return next((number for level, number in PRIORITIES if record.levelno >= level), 7)


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


def _text(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if record.exc_info:
        return f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    return text


class _FileHandler(logging.handlers.RotatingFileHandler):
    """Renames a file that is full. The library's class looks up the path and forms each line twice for it."""

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: ARG002, N802, the library's
        # A pipe in its place has no size.
        return self.stream is not None and self.stream.seekable() and self.stream.tell() >= self.maxBytes


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return log_lines.as_json(_priority(record), COMPONENT, _text(record), fields_of(record))


class _JournalHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not log_lines.to_journal(_priority(record), COMPONENT, _text(record), fields_of(record)):
            # journald is being restarted, or is not there any more: the unit's standard error goes on, or
            # is journald's, too, and then the line is lost.
            with suppress(OSError):
                sys.stderr.write(f"cgpud: {_text(record)}\n")
