# SPDX-License-Identifier: Apache-2.0
"""A trace as it is read: JSON Lines, checked against the schema, with bounds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from cgpu.errors import CgpuError, show
from cgpu.trace.shapes import Shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = Path(__file__).resolve().parent / "schema.json"
MAX_LINE = 1 << 16  # bytes
MAX_EVENTS = 1_000_000

Fields = dict[str, int | None]


@dataclass(frozen=True, slots=True)
class Params:
    """The structure behind a call's pointer, and the memory sizes that were asked for and told."""

    form: str
    given: Fields
    out: Fields
    asked: tuple[int, ...]
    told: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One line. Numbers that its kind does not have are 0; a pointer that was set is True (1)."""

    t: int
    pid: int
    tid: int
    call: str
    nr: int = 0
    file: int = 0
    fd: int = -1
    size: int = 0
    form: str = ""
    given: Fields = field(default_factory=dict)
    out: Fields = field(default_factory=dict)
    params: Params | None = None
    status: int | None = None
    result: int | None = None
    node: str = ""
    by: str = ""
    last: bool = False
    rest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_driver_call(self) -> bool:
        """Whether it is an ioctl, and not about files or processes."""
        return self.nr > 0 or self.call.startswith(("NV_", "UVM_", "ioctl"))


@dataclass(frozen=True, slots=True)
class Header:
    """The first line."""

    driver: str | None
    layouts: str | None
    kernel: str
    machine: str
    command: str
    notes: dict[str, str]


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace."""

    header: Header
    events: tuple[Event, ...]


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of a line."""
    document: dict[str, Any] = json.loads(SCHEMA.read_text())
    return document


def rules(kind: str) -> dict[str, Any]:
    """Return the schema of a header or of an event alone."""
    return {"$defs": schema()["$defs"], "$ref": f"#/$defs/{kind}"}


@cache
def _shapes(kind: str) -> Shapes:
    return Shapes(rules(kind))


def load(path: Path) -> Trace:
    """Read a file. Raises CgpuError with one line that names file, line, value and what is expected."""
    try:
        with path.open("rb") as stream:
            # One byte more than a line may have: then it is refused, and is not read as several.
            return parse(iter(lambda: stream.readline(MAX_LINE + 1), b""), str(path))
    except OSError as error:
        raise CgpuError(
            f"{path}: cannot be read: {error.strerror}; expected a trace of: cgpu trace record"
        ) from error


def parse(lines: Iterable[bytes], source: str) -> Trace:
    """Read lines. Raises CgpuError."""
    header: Header | None = None
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        where = f"{source}: line {number}"
        if header is None:
            header = _header(_checked(line, "header", where))
            continue
        if len(events) == MAX_EVENTS:
            raise CgpuError(
                f"{where}: is too many; expected at most {MAX_EVENTS} events; record a shorter run"
            )
        event = _event(_checked(line, "event", where))
        if events and event.t < events[-1].t:
            raise CgpuError(f"{where}: t: {event.t}: expected no less than in the line before")
        events.append(event)
    if header is None:
        raise CgpuError(f"{source}: is empty; expected a trace of: cgpu trace record")
    return Trace(header, tuple(events))


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"{show(what)} is no whole number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name is given twice")
    return made


def _checked(line: bytes, kind: str, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise CgpuError(f"{where}: is too long; expected at most {MAX_LINE} bytes")
    try:
        document = json.loads(
            line.decode("ascii"), object_pairs_hook=_once, parse_float=_refuse, parse_constant=_refuse
        )
        problem = _shapes(kind).problem(document)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise CgpuError(f"{where}: is no JSON of a trace ({show(reason)}); record it again") from error
    if problem is not None:
        at = ".".join(show(str(part)) for part in problem.absolute_path) or kind
        raise CgpuError(
            f"{where}: {at}: {show(problem.message)}; expected what docs/commands/cgpu-trace.md says"
        )
    assert isinstance(document, dict)
    return document


def _header(document: dict[str, Any]) -> Header:
    names = ("driver", "layouts", "kernel", "machine", "command", "notes")
    return Header(**{name: document[name] for name in names})


def _params(document: dict[str, Any]) -> Params:
    lists = (tuple(document.get("asked", ())), tuple(document.get("told", ())))
    return Params(document["form"], document["in"], document.get("out", {}), *lists)


PLAIN = (
    *("t", "pid", "tid", "call", "nr", "file", "fd", "size"),
    *("form", "out", "status", "result", "node", "by", "last"),
)


def _event(document: dict[str, Any]) -> Event:
    values = {name: document.pop(name) for name in PLAIN if name in document}
    given = document.pop("in", {})
    params = document.pop("params", None)
    return Event(**values, given=given, params=_params(params) if params else None, rest=document)
