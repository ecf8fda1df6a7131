# SPDX-License-Identifier: Apache-2.0
"""The hook, compiled and run as a runtime runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.client.support import CONTAINER, PlainTree

HOOK = Path(__file__).resolve().parents[2] / "hook" / "cgpu-hook"
# The hook in Python, with all that it touches in its current folder.
CODE = """
import os, sys
sys.path.append({root!r})
from cgpu import paths
paths.SHARES = os.getcwd() + "/shares"
paths.EVENTS = os.getcwd() + "/events.log"
from cgpu.hook.main import main
os._exit(main(None, os.getcwd() + "/config.json"))
"""
# In the place of Python: says that it was called, with which arguments and input.
RECORDER = "#!/bin/sh\necho python; shift 2; for word; do printf '%s\\0' \"$word\"; done; cat\n"


def code_of_hook() -> str:
    return CODE.format(root=str(HOOK.parent.parent))


def write_recorder(folder: Path) -> str:
    """Write a program that stands in the place of Python; return its path."""
    path = folder / "python"
    path.write_text(RECORDER)
    path.chmod(0o755)
    return str(path)


def write_bundle(base: Path, document: object) -> Path:
    """Write a bundle's config.json; text as it is, anything else as JSON."""
    place = base / "bundle"
    place.mkdir(exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (place / "config.json").write_text(text)
    return place


@dataclass(frozen=True)
class Result:
    """Results of a run of the hook."""

    status: int
    errors: str
    written: str


def compile_hook(folder: Path, *options: str, python: str = "/usr/bin/python3") -> Path:
    """Compile the hook with paths in its current folder; python: its program in doubt. Return its path."""
    root = HOOK.parent.parent
    program = folder / "cgpu-hook"
    (folder / "start.py").write_text(code_of_hook())
    shared = [
        root / "runtime_config" / "launcher" / name
        for name in ("json.c", "protect.c", "python.c", "read_file.c")
    ]
    includes = [root / "runtime_config" / "launcher", root / "kmod" / "build" / "gen"]
    places = {"CGPU_CONFIG_PATH": "config.json", "CGPU_DRAINING_PATH": "draining", "CGPU_LOG_PATH": "log"}
    places["CGPU_PYTHON"] = python
    # As kmod/Makefile compiles it.
    compiler = ("musl-gcc", "-static") if shutil.which("musl-gcc") and not options else ("cc",)
    command = [
        *(*compiler, "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", *options),
        *(word for include in includes for word in ("-iquote", str(include))),
        *(f'-D{name}="{place}"' for name, place in places.items()),
        *map(str, sorted((root / "hook" / "launcher").glob("*.c"))),
        *map(str, shared),
        *("-o", str(program)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return program


class FakeTree(PlainTree):
    """A tree of plain files, and the hook run against it as a real process.

    program: the compiled hook; without, the hook in Python.
    """

    def __init__(self, base: Path, program: Path | None = None) -> None:
        super().__init__(base)
        self.program = program
        self.settings: dict[str, object] = {}
        self.shares = base / "shares"
        self.events = base / "events.log"

    def bundle(self, document: object) -> Path:
        """Write a bundle's config.json; text as it is, anything else as JSON."""
        return write_bundle(self.base, document)

    def state(self, **changes: object) -> str:
        place = str(self.base / "bundle")
        state = {"ociVersion": "1.0.2", "id": CONTAINER, "status": "created", "pid": 4711, "bundle": place}
        return json.dumps({**state, **changes})

    def command(self) -> list[str]:
        """Return the hook's command with this tree in its configuration."""
        config = self.base / "config.json"
        config.write_text(json.dumps({"tree": str(self.path), **self.settings}))
        if self.program is not None:
            return [str(self.program)]
        return ["/usr/bin/python3", "-IS", "-c", code_of_hook()]

    def run(self, *arguments: str, state: str | bytes | None = None, before: tuple[str, ...] = ()) -> Result:
        """Run the hook; before is a program to put in front of it."""
        text = self.state() if state is None else state
        raw = text.encode() if isinstance(text, str) else text
        command = [*before, *self.command(), *arguments]
        done = subprocess.run(command, input=raw, capture_output=True, check=False, timeout=60, cwd=self.base)
        assert done.stdout == b""
        written = self.inst_ctl.read_text() if self.inst_ctl.is_file() else ""
        return Result(done.returncode, done.stderr.decode(), written)
