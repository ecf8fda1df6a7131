# SPDX-License-Identifier: Apache-2.0
"""TOML read, and edited by marked blocks. Everything around a block stays as it is, to the last space.

A block keeps the lines that it replaces as comments, and removing it puts them back: no file needs a record
elsewhere of what it was. Its last line has a checksum of each line of ours: a line that another has written
there is never removed. Where another tool has lost the comments, remove() takes an entry out by its path.
The parser alone knows the grammar: an edit counts where the parsed file has changed as wanted, and in nothing
else. tomlkit 0.15.2 does not do: it gives other blank lines back, moves tables of some files as it reads
them, and refuses valid files whose tables of plugins lie apart.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence

from cgpu.errors import CgpuError, show

BEGIN = "# >>> cgpu-runtime-config: added, do not edit"
BEGIN_IN_LINE = BEGIN + " (the line before had no end)"
END = "# <<< cgpu-runtime-config"
WAS = "#was: "
WAS_IN_LINE = "#was, without an end: "
BARE = re.compile(r"[A-Za-z0-9_-]+")
MOST_LINES = 64  # of one value that is replaced


def parse(name: str, text: str) -> dict[str, object]:
    """Parse TOML. Raises CgpuError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CgpuError(f"{name}: {error}; expected TOML") from error


def child(parent: object, *names: str) -> object:
    """Return a value deep in a parsed file, None where a name on the way is missing."""
    for name in names:
        parent = parent.get(name) if isinstance(parent, dict) else None
    return parent


def check(name: str, before: str, after: str, wanted: Mapping[tuple[str, ...], object]) -> None:
    """Raise CgpuError unless an edited text says the same as before but for the wanted values."""
    if not _says(name, after, _expected(name, before, wanted)):
        raise _refusal(name, next(iter(wanted)))


def _refusal(name: str, path: tuple[str, ...]) -> CgpuError:
    return CgpuError(
        f"{name}: {write_key(*path)} cannot be added: an earlier line gives what holds it another form "
        "(an inline table?): write that as [table] lines"
    )


def _expected(name: str, before: str, wanted: Mapping[tuple[str, ...], object]) -> dict[str, object] | None:
    """Return a text's values with the wanted ones, None where those do not fit in.

    Raises CgpuError for a text that is no TOML.
    """
    settings = parse(name, before)
    try:
        for path, value in wanted.items():
            _set(settings, path, value)
    except CgpuError:
        return None
    return settings


def _is_all_but(name: str, edited: str, settings: dict[str, object], path: tuple[str, ...]) -> bool:
    """Return whether a text is TOML with the settings but for one value, whose tables may be left empty."""
    try:
        found = parse(name, edited)
    except CgpuError:
        return False
    return child(found, *path) is None and same(without(found, *path), without(settings, *path))


def without(settings: Mapping[str, object], name: str, *rest: str) -> dict[str, object]:
    """Return settings without a value deep in them, and without the tables that are empty then."""
    inner = settings.get(name)
    left = without(inner, *rest) if rest and isinstance(inner, dict) else {}
    return {**{key: one for key, one in settings.items() if key != name}, **({name: left} if left else {})}


def _says(name: str, text: str, expected: dict[str, object] | None) -> bool:
    """Return whether a text is TOML with exactly the expected values."""
    try:
        return expected is not None and same(parse(name, text), expected)
    except CgpuError:
        return False


def same(left: object, right: object) -> bool:
    """Return whether two parsed values are alike: types too, and not-a-number is like itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right) if isinstance(left, float) else left == right


def put(name: str, text: str, path: tuple[str, ...], value: object) -> str:
    """Return the text with a key set by a marked block, at the first place where that has the wanted effect.

    Raises CgpuError when that cannot be.
    """
    expected = _expected(name, text, {path: value})
    for edited in _edits(text, path, write_value(value)):
        if _says(name, edited, expected):
            return edited
    raise _refusal(name, path)


def remove(name: str, text: str, path: tuple[str, ...]) -> str:
    """Return the text without a key or table, whoever wrote it. Raises CgpuError when that cannot be."""
    kept: list[str] = []
    table: tuple[str, ...] = ()
    ours = False
    for line in lines_of(text):
        if not line.strip() or line.lstrip().startswith("#"):
            # Tools put an empty line before each table: that of ours goes with it.
            if line.strip() or not ours or not kept or kept[-1].strip():
                kept.append(line)
            continue
        place = _place(line)
        if place and line.lstrip().startswith("["):
            table = place
            ours = table[: len(path)] == path
        elif place:  # otherwise the line goes on with the value before it
            ours = (*table, *place)[: len(path)] == path
        kept += [] if ours else [line]
    edited = "".join(kept)
    if not _is_all_but(name, edited, parse(name, text), path):
        raise CgpuError(f"{name}: {write_key(*path)} cannot be taken out: take it out by hand")
    return edited


def _place(line: str) -> tuple[str, ...]:
    """Return the path that one line names as a header or a key, empty for a line that is neither alone."""
    try:
        found: object = tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    names: list[str] = []
    while isinstance(found, dict) and len(found) == 1:
        ((name, found),) = found.items()
        names.append(name)
    return tuple(names)


def replace_value(name: str, text: str, path: tuple[str, ...], value: object) -> str:
    """Return the text with another value of a key, without a mark. Raises CgpuError when that cannot be."""
    marked = put(name, text, path, value)
    kept = [line for line in lines_of(marked) if not line.startswith((BEGIN, END, WAS, WAS_IN_LINE))]
    return "".join(kept)


def _edits(text: str, path: tuple[str, ...], written: str) -> Iterator[str]:
    """Yield the text with a key in place of one there, in a table, beside a dotted key, in a new table."""
    *_, table, key = path
    lines = lines_of(text)
    named = re.compile(rf"(?:[^=#]*[\s.])?{_spelled(key)}\s*=")
    for at, line in enumerate(lines):
        if named.match(line):
            begin = line.partition("=")[0]
            for last in range(at, min(at + MOST_LINES, len(lines))):
                yield replace_lines(text, [f"{begin}= {written}"], at, last)
    for at, line in enumerate(lines, 1):
        if line.lstrip().startswith("[") and table in line:
            yield insert_block(text, [f"{write_key(key)} = {written}"], at)
    for names in range(2, len(path) + 1):
        dotted = re.compile(rf"\s*{_spelled(*path[-names:-1])}\s*\.")
        for at, line in enumerate(lines, 1):
            if dotted.match(line):
                for last in range(at, min(at + MOST_LINES, len(lines) + 1)):
                    yield insert_block(text, [f"{write_key(*path[-names:])} = {written}"], last)
    yield insert_block(text, [f"[{write_key(*path[:-1])}]", f"{write_key(key)} = {written}"])


def _spelled(*names: str) -> str:
    """Return a pattern of a dotted key, with quotes and blanks or without."""
    return r"\s*\.\s*".join(rf"[\"']?{re.escape(name)}[\"']?" for name in names)


def _set(settings: dict[str, object], path: tuple[str, ...], value: object) -> None:
    table = settings
    for name in path[:-1]:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise CgpuError(f"{name}: expected a table")
        table = inner
    table[path[-1]] = value


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends. Only what ends a line in TOML does."""
    return io.StringIO(text).readlines()


def insert_block(text: str, lines: Sequence[str], at: int | None = None) -> str:
    """Return the text with a block after its first `at` lines, or at its end."""
    existing = lines_of(text)
    at = len(existing) if at is None else at
    before, after = "".join(existing[:at]), "".join(existing[at:])
    begin = BEGIN if not before or before.endswith("\n") else "\n" + BEGIN_IN_LINE
    return before + "".join(f"{line}\n" for line in (begin, *lines, _end(lines))) + after


def replace_lines(text: str, lines: Sequence[str], first: int, last: int) -> str:
    """Return the text with a block in place of the lines from first to last, which are counted from 0."""
    existing = lines_of(text)
    kept = [
        WAS + line if line.endswith("\n") else f"{WAS_IN_LINE}{line}\n" for line in existing[first : last + 1]
    ]
    block = [f"{BEGIN}\n", *(f"{line}\n" for line in lines), *kept, f"{_end(lines)}\n"]
    return "".join([*existing[:first], *block, *existing[last + 1 :]])


def _end(lines: Sequence[str]) -> str:
    """Return the last line of a block with some lines."""
    return " ".join((END, *map(_sum, lines)))


def _sum(line: str) -> str:
    return f"{zlib.crc32(line.strip().encode()):08x}"


def strip(name: str, text: str) -> str:
    """Return the text as it was before its blocks.

    Raises CgpuError when a mark is missing, and for a line between marks that another has written.
    """
    kept, foreign = _split(name, text)
    for line in foreign:
        raise CgpuError(
            f"{name}: {show(line)}: is not of cgpu-runtime-config, and lies between its marks: move that "
            "line out, or remove the marks (# >>> and # <<<): then all but the runtime stays"
        )
    return kept


def _split(name: str, text: str) -> tuple[str, list[str]]:
    """Return the text as it was before its blocks, and what others have written into these.

    Raises CgpuError when a mark is missing.
    """
    kept: list[str] = []
    foreign: list[str] = []
    ours: list[str] = []
    inside = False
    open_end = -1  # how many lines there were when one without an end was restored
    for line in lines_of(text):
        body = line.removesuffix("\n")
        if not inside:
            inside = body in (BEGIN, BEGIN_IN_LINE)
            if body == BEGIN_IN_LINE:
                open_end = len(kept)
            elif not inside:
                kept.append(line)
        elif body.startswith(END):
            inside = False
            sums = body.split()
            foreign += [one.strip() for one in ours if one.strip() and _sum(one) not in sums]
            ours = []
        elif body.startswith(WAS_IN_LINE):
            kept.append(body.removeprefix(WAS_IN_LINE) + "\n")
            open_end = len(kept)
        elif body.startswith(WAS):
            kept.append(line.removeprefix(WAS))
        else:
            ours.append(body)
    if inside:
        raise CgpuError(f"{name}: the line {END!r} is missing after {BEGIN!r}: remove that block by hand")
    if kept and open_end == len(kept):  # otherwise lines follow, and it needs its end
        kept[-1] = kept[-1].removesuffix("\n")
    return "".join(kept), foreign


def is_ours(text: str) -> bool:
    """Return whether a file is a block and nothing else, made where there was none."""
    marks = text.startswith(BEGIN + "\n") and lines_of(text)[-1].startswith(END)
    return marks and WAS_IN_LINE not in text and not _split("", text)[0]


def as_file(before: str | None, after: str) -> str | None:
    """Return the content of an edited file, None for no file. before: its content; after: the edited text.

    A file that was empty stays a file: its block records that by an empty line without an end.
    """
    if before is None or is_ours(before):
        return after or None
    if is_ours(after):
        *block, end = lines_of(after)
        return "".join([*block, f"{WAS_IN_LINE}\n", end])
    return after


def write_string(text: str) -> str:
    """Return a basic string. JSON's escapes are TOML's, but for characters that need no escape there."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_key(*names: str) -> str:
    """Return a dotted key."""
    return ".".join(name if BARE.fullmatch(name) else write_string(name) for name in names)


def write_value(of: object) -> str:
    """Return a value of a parsed file on one line."""
    if isinstance(of, str):
        return write_string(of)
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, Mapping):
        return (
            "{" + ", ".join(f"{write_key(name)} = {write_value(inner)}" for name, inner in of.items()) + "}"
        )
    if isinstance(of, (list, tuple)):
        return "[" + ", ".join(map(write_value, of)) + "]"
    if isinstance(of, (dt.datetime, dt.date, dt.time)):
        return of.isoformat()
    return repr(of)


def write_table(path: Sequence[str], content: Mapping[str, object]) -> list[str]:
    """Return the lines of a table, then those of the tables in it."""
    lines = [f"[{write_key(*path)}]"]
    lines += [
        f"{write_key(name)} = {write_value(of)}"
        for name, of in content.items()
        if not isinstance(of, Mapping)
    ]
    for name, of in content.items():
        if isinstance(of, Mapping):
            lines += write_table((*path, name), of)
    return lines
