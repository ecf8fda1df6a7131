# SPDX-License-Identifier: Apache-2.0
"""The hook, compiled and run as a runtime runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.client.support import CONTAINER, MIB, PlainTree

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


def code_of_hook() -> str:
    return CODE.format(root=str(HOOK.parent.parent))


def write_bundle(base: Path, document: object) -> Path:
    """Write a bundle's config.json; text and bytes as they are, anything else as JSON."""
    place = base / "bundle"
    place.mkdir(exist_ok=True)
    text = document if isinstance(document, (str, bytes)) else json.dumps(document)
    (place / "config.json").write_bytes(text.encode() if isinstance(text, str) else text)
    return place


@dataclass(frozen=True)
class Result:
    """Results of a run of the hook."""

    status: int
    errors: str
    written: str


def compile_hook(folder: Path, *options: str, python: str = "/usr/bin/python3") -> Path:
    """Compile the hook with paths in its current folder; python: what it starts. Return its path."""
    root = HOOK.parent.parent
    program = folder / "cgpu-hook"
    (folder / "start.py").write_text(code_of_hook())
    launcher = root / "runtime_config" / "launcher"
    shared = [launcher / name for name in ("protect.c", "python.c", "read_file.c")]
    # As kmod/Makefile compiles it.
    compiler = ("musl-gcc", "-static") if shutil.which("musl-gcc") and not options else ("cc",)
    command = [
        *(*compiler, "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror"),
        *("-iquote", str(launcher), f'-DCGPU_PYTHON="{python}"', "-DCGPU_RESTART_MS=200"),
        *('-DCGPU_DRAINING_PATH="draining"', *options),
        *map(str, sorted(HOOK.parent.glob("*.c"))),
        *map(str, shared),
        *("-o", str(program)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return program


class FakeTree(PlainTree):
    """A tree of plain files, and the compiled hook run against it as a real process."""

    def __init__(self, base: Path, program: Path) -> None:
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

    def given(self, words: str = f"gpu=0:{6043 * MIB}:1:0", *, stage: str = "prestart") -> tuple[str, ...]:
        """Return the arguments that the wrapper writes for the hook; words: what the container gets."""
        line = f"destroy id={CONTAINER}" if stage == "poststop" else f"create id={CONTAINER} {words}"
        return stage, str(self.path), line

    def configure(self) -> None:
        """Have this tree in the configuration of the hook in Python."""
        config = json.dumps({"tree": str(self.path), **self.settings})
        (self.base / "config.json").write_text(config)

    def run(self, *arguments: str, state: str | bytes | None = None, before: tuple[str, ...] = ()) -> Result:
        """Run the hook; before is a program to put in front of it."""
        self.configure()
        text = self.state() if state is None else state
        raw = text.encode() if isinstance(text, str) else text
        command = [*before, str(self.program), *arguments]
        done = subprocess.run(command, input=raw, capture_output=True, check=False, timeout=60, cwd=self.base)
        assert done.stdout == b""
        written = self.inst_ctl.read_text() if self.inst_ctl.is_file() else ""
        return Result(done.returncode, done.stderr.decode(), written)
