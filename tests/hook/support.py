# SPDX-License-Identifier: Apache-2.0
"""What the tests of the hook share: cards, specifications, a tree of plain files."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.client.tree import Gpu
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request.resolve import Allocation, resolve
from cgpu.request.spec import read

MIB = 1 << 20
T4 = 15109
HOOK = Path(__file__).resolve().parents[2] / "hook" / "cgpu-hook"
RUNNER = """
import os, sys
sys.path.append({root!r})
from cgpu import paths
paths.SHARES = {shares!r}
paths.EVENTS = {events!r}
from cgpu.hook.main import main
os._exit(main(None, {config!r}))
"""
CONTAINER = "0123456789abcdef" * 4
ENV = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15"}


def uuid(index: int) -> str:
    return f"GPU-b084ae33-e244-0959-cd97-83000000{index:04x}"


def cards(*mib: int, max_inst: int = 20) -> list[Gpu]:
    return [Gpu(index, uuid(index), size * MIB, max_inst) for index, size in enumerate(mib)]


def spec(
    env: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **members: object
) -> dict[str, object]:
    """Return a specification with these variables, annotations and other members."""
    entries = ["PATH=/bin", *(f"{name}={value}" for name, value in (env or {}).items())]
    document: dict[str, object] = {"ociVersion": "1.0.2", "process": {"args": ["/x"], "env": entries}}
    if annotations is not None:
        document["annotations"] = annotations
    return {**document, **members}


def wants(document: Mapping[str, object], config: Effective) -> bool:
    """Return whether a container is to be sliced."""
    return read(document, config).amounts(config) is not None


def allocate(document: Mapping[str, object], gpus: Sequence[Gpu], config: Effective) -> Allocation | None:
    """Return what a container gets on these cards, None when it is not to be sliced."""
    request = read(document, config)
    amounts = request.amounts(config)
    return None if amounts is None else resolve(request, amounts, gpus, config)


def granted(document: Mapping[str, object], gpus: Sequence[Gpu], config: Effective) -> Allocation:
    """Return what a container gets that is to be sliced."""
    found = allocate(document, gpus, config)
    assert found is not None
    return found


@contextmanager
def refused(line: str) -> Iterator[None]:
    """Expect a refusal with exactly this line."""
    with pytest.raises(CgpuError) as caught:
        yield
    assert str(caught.value) == line


def down(tree: Path) -> str:
    """Return what is said where no engine is behind a tree."""
    return (
        f"the engine at {tree} is not running, so containers with a GPU slice cannot start; "
        f"start it: {paths.daemon_command('start')}"
    )


def write_bundle(base: Path, document: object) -> Path:
    """Write a bundle's config.json; text as it is, anything else as JSON."""
    place = base / "bundle"
    place.mkdir(exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (place / "config.json").write_text(text)
    return place


@dataclass(frozen=True)
class Result:
    """What a run of the hook left."""

    status: int
    errors: str
    written: str


# The same in the folder of the compiled hook: what it starts in doubt, in its current folder.
IN_FOLDER = """
import os, sys
sys.path.append({root!r})
from cgpu import paths
paths.SHARES = os.getcwd() + "/shares"
paths.EVENTS = os.getcwd() + "/events.log"
from cgpu.hook.main import main
os._exit(main(None, os.getcwd() + "/config.json"))
"""


def compile_hook(folder: Path, *options: str, python: str = "/usr/bin/python3") -> Path:
    """Compile the hook with paths in its current folder; python: what it starts in doubt. Return its path."""
    root = HOOK.parent.parent
    program = folder / "cgpu-hook"
    (folder / "start.py").write_text(IN_FOLDER.format(root=str(root)))
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


def gpu_stat(facts: Mapping[str, object]) -> str:
    """Return a GPU's line of the entry stat, of what its other entries have."""
    return " ".join(f"{key}={facts[key]}" for key in ("uuid", "memtotal", "max_inst") if key in facts)


@dataclass
class FakeTree:
    """A tree of plain files, and the hook run against it as a real process."""

    base: Path
    # The compiled hook; without, the hook in Python.
    program: Path | None = None
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.base / "tree"

    @property
    def shares(self) -> Path:
        """Return the folder of the files of pods' shares."""
        return self.base / "shares"

    @property
    def events(self) -> Path:
        """Return the event log."""
        return self.base / "events.log"

    @property
    def inst_ctl(self) -> Path:
        return self.path / "inst_ctl"

    def build(self, *mib: int) -> FakeTree:
        self.path.mkdir()
        (self.path / "version").write_text("0.1.0\n")
        (self.path / "default_memsize").write_text("0\n")
        self.inst_ctl.write_text("")
        for index, size in enumerate(mib):
            nodes = {
                "uuid": uuid(index),
                "name": "Tesla T4",
                "memtotal": size * MIB,
                "max_inst": 20,
                "policy": 1,
                "mig": 0,
                "natives": 0,
            }
            self.directory(str(index), **nodes, free_weight=20)
        return self

    def directory(self, place_name: str, /, **nodes: object) -> None:
        place = self.path / place_name
        place.mkdir()
        if "uuid" in nodes:
            nodes["stat"] = gpu_stat(nodes)
        for node, value in nodes.items():
            (place / node).write_text(f"{value}\n")

    def write(self, entries: Mapping[str, object]) -> None:
        """Write entries, by their paths in the tree."""
        for name, value in entries.items():
            (self.path / name).parent.mkdir(exist_ok=True)
            (self.path / name).write_text(f"{value}\n")

    def bundle(self, document: object) -> Path:
        """Write a bundle's config.json; text as it is, anything else as JSON."""
        return write_bundle(self.base, document)

    def state(self, **changes: object) -> str:
        """Return the state that a runtime would send."""
        place = str(self.base / "bundle")
        state = {"ociVersion": "1.0.2", "id": CONTAINER, "status": "created", "pid": 4711, "bundle": place}
        return json.dumps({**state, **changes})

    def command(self) -> list[str]:
        """Return the hook's command with this tree in its configuration."""
        config = self.base / "config.json"
        config.write_text(json.dumps({"tree": str(self.path), **self.settings}))
        if self.program is not None:
            return [str(self.program)]
        code = RUNNER.format(
            root=str(HOOK.parent.parent),
            config=str(config),
            shares=str(self.shares),
            events=str(self.events),
        )
        return ["/usr/bin/python3", "-IS", "-c", code]

    def run(self, *arguments: str, state: str | bytes | None = None, before: tuple[str, ...] = ()) -> Result:
        """Run the hook; before is a program to put in front of it."""
        text = self.state() if state is None else state
        raw = text.encode() if isinstance(text, str) else text
        command = [*before, *self.command(), *arguments]
        done = subprocess.run(command, input=raw, capture_output=True, check=False, timeout=60, cwd=self.base)
        assert done.stdout == b""
        written = self.inst_ctl.read_text() if self.inst_ctl.is_file() else ""
        return Result(done.returncode, done.stderr.decode(), written)
