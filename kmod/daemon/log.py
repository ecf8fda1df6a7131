# SPDX-License-Identifier: Apache-2.0
"""The daemon's log: where its lines go, and in which form."""

from __future__ import annotations

import logging
import logging.handlers
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cgpu import log_lines, paths

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPONENT: Final = "cgpud"
BYTES: Final = 1 << 20
# As the engine begins its lines.
CONTAINER: Final = re.compile(r"container ([A-Za-z0-9_.+-]{1,127})(?=: | registered on | removed$)")
GPU: Final = re.compile(r"\bGPU ([0-9]{1,4})\b(?: \((GPU-[0-9A-Za-z-]{1,64})\))?")
PRIORITIES: Final = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


@dataclass
class _Place:
    """Where this process logs; path is None until it has begun to."""

    path: Path | None = None
    foreground: bool = False
    form: str = "text"


_place = _Place()


def start(path: Path, *, foreground: bool) -> None:
    """Log to standard error: a terminal, or the journal.

    In the background: to a file that does not grow past a bound, and to syslog where there is one.
    """
    _place.path, _place.foreground, _place.form = path, foreground, "text"
    logging.basicConfig(level=logging.INFO, handlers=_handlers(), force=True)


def set_form(form: str) -> None:
    """Have the lines in the form that the configuration says. Nothing happens in a process without a log."""
    if _place.path is None or form == _place.form:
        return
    _place.form = form
    logging.basicConfig(level=logging.getLogger().level, handlers=_handlers(), force=True)


def event(kind: str, fields: Mapping[str, str | int]) -> None:
    """Log an event, where lines have fields. As text it is in the event log alone."""
    if _place.form == "text":
        return
    gpu = f"GPU {fields['gpu']}: " if "gpu" in fields else ""
    of = f"{gpu}slice of container {fields['id']} " if "id" in fields else gpu
    text = fields.get("message", f"{of}{kind}")
    logging.getLogger(__name__).info("%s", text, extra={"fields": {**fields, "event": kind}})


def _handlers() -> list[logging.Handler]:
    assert _place.path is not None
    journal = _place.form == "journal" and Path(paths.JOURNAL).is_socket()
    handlers: list[logging.Handler] = [_JournalHandler()] if journal else []
    if _place.foreground:
        return handlers or [_formed(logging.StreamHandler(sys.stderr), "cgpud: %(message)s")]
    style = "%(asctime)s cgpud[%(process)d] %(levelname)s %(message)s"
    if not journal and Path("/dev/log").exists():
        syslog = logging.handlers.SysLogHandler("/dev/log")
        # Before the object: in the form as text it is a part of each line.
        syslog.ident = f"{COMPONENT}[{os.getpid()}]: " if _place.form == "json" else ""
        handlers.append(_formed(syslog, style))
    return [_formed(logging.handlers.RotatingFileHandler(_place.path, "a", BYTES, 1), style), *handlers]


def _formed(handler: logging.Handler, style: str) -> logging.Handler:
    handler.setFormatter(_JsonFormatter() if _place.form == "json" else logging.Formatter(style))
    return handler


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


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return log_lines.as_json(_priority(record), COMPONENT, _text(record), fields_of(record))


class _JournalHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not log_lines.to_journal(_priority(record), COMPONENT, _text(record), fields_of(record)):
            # journald is being restarted, or is not there any more: the unit's standard error goes on.
            sys.stderr.write(f"cgpud: {_text(record)}\n")
