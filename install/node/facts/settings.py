# SPDX-License-Identifier: Apache-2.0
"""The runtimes in container engines' settings: ours and the default one, and nothing else."""

from __future__ import annotations

import glob
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cgpu.install.node.facts import files, programs
from cgpu.install.node.facts.programs import Process
from cgpu.runtime_config.engines.engine import ContainerEngine
from cgpu.runtime_config.engines.registry import ENGINES

MAX_FILES = 64
MAX_PROCESSES = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One settings file. runtime: the path it names for ours. default: the default runtime's name.

    cdi: whether pods get CDI devices, None where the file does not say.
    """

    engine: str
    file: str
    runtime: str | None = None
    default: str | None = None
    problem: str | None = None
    cdi: bool | None = None


def gather(root: Path) -> tuple[Entry, ...]:
    """Read every settings file that is there: in the usual places, and where running engines have theirs."""
    running = programs.processes(root)
    return tuple(entry for engine in ENGINES.values() for entry in of_engine(root, engine, running))


def of_engine(root: Path, engine: ContainerEngine, running: tuple[Process, ...] = ()) -> Iterator[Entry]:
    """Yield what the settings files of one engine say. running: processes that may name further files."""
    return _entries(root, engine, (*engine.settings_files, *_named(root, engine, running)))


def parse(engine: ContainerEngine, file: str, text: str) -> Entry:
    """Read one settings file. Raises ValueError."""
    runtime, default = engine.read_settings(text)
    cdi = engine.cdi_setting(text)
    return Entry(
        engine.name, file, _word(runtime), _word(default), cdi=cdi if isinstance(cdi, bool) else None
    )


def _named(root: Path, engine: ContainerEngine, running: tuple[Process, ...]) -> tuple[str, ...]:
    """Return the settings files that running processes of an engine were started with."""
    if engine.is_part:
        return ()
    pids = [one.pid for one in running if engine.settings_options and one.program == engine.program]
    named = (programs.option(root, pid, engine.settings_options) for pid in pids[:MAX_PROCESSES])
    files = dict.fromkeys(file for file in named if file is not None and file.startswith("/"))
    known = {file for one in ENGINES.values() for file in one.settings_files}
    return tuple(file for file in files if file not in known)


def _entries(root: Path, engine: ContainerEngine, places: tuple[str, ...]) -> Iterator[Entry]:
    for file in _files(root, places)[:MAX_FILES]:
        text = files.text(root, file)
        if text is None:
            continue
        try:
            yield parse(engine, file, text)
        except (ValueError, RecursionError):
            yield Entry(engine.name, file, problem=f"is not {engine.settings_format}")


def _files(root: Path, places: tuple[str, ...]) -> list[str]:
    found = []
    for place in places:
        inside = [f"{place}/{name}" for name in files.names(root, place) if name.endswith((".toml", ".conf"))]
        found += inside or [place]
    return [*found, *sorted(_imports(root, found))]


def _imports(root: Path, known: list[str]) -> set[str]:
    """Return the further files that a containerd configuration names."""
    imported: set[str] = set()
    for file in known:
        try:
            document = tomllib.loads(files.text(root, file) or "")
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        patterns = document.get("imports")
        for pattern in patterns if isinstance(patterns, list) else []:
            # Path.glob() refuses forms that containerd takes, such as conf.d/**.toml.
            inner = str(pattern).lstrip("/") if str(pattern).startswith("/") else ""
            found = sorted(glob.glob(inner, root_dir=root, include_hidden=True)) if "\0" not in inner else []
            imported |= {f"/{name}" for name in found[:MAX_FILES]}
    return imported - set(known)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 4096 else None
