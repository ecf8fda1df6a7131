# SPDX-License-Identifier: Apache-2.0
"""The wrapper as a real process against a fake engine: a tree of plain files, own paths."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from tests.client.support import T4, PlainTree
from tests.runtime_config.support import ASKING, ROOT, JsonObject, cdi_document, program, spec

# Files of the engine in /run/cgpu lie elsewhere; everything after these lines is the program itself.
PLACES = """
import os, sys
sys.path.append({root!r})
from cgpu import paths
for name, path in {paths!r}.items():
    setattr(paths, name, path)
"""
RUNNER = """
from cgpu.runtime_config.oci_runtime.main import main
sys.exit(main(sys.argv[1:]))
"""

# Modules of Python that cost more than all that the wrapper does.
DEAR = {
    "json",
    "re",
    "enum",
    "typing",
    "pathlib",
    "dataclasses",
    "subprocess",
    "logging",
    "argparse",
    "difflib",
    "tempfile",
}
FIRST = "NVIDIA_VISIBLE_DEVICES=0"
DEVICES = """Character devices:
  1 mem
195 nvidia
511 nvidia-uvm

Block devices:
  8 nvidia-uvm
"""


def as_read(arguments: Sequence[str]) -> list[str]:
    """Return what the launcher reads out of a command line in which each option has a value of its own."""
    options = dict(pairwise(arguments))
    log, form = options.get("--log", ""), options.get("--log-format", "text")
    at = next(index for index, word in enumerate(arguments) if word in ("create", "run", "restore"))
    bundle = options.get("--bundle") or options["-b"]
    return [arguments[at], bundle, arguments[-1], log, form, ""]


@dataclass(frozen=True)
class Result:
    status: int
    errors: str


class Wrapper:
    """A node with an engine of plain files and a low-level runtime that only records its arguments."""

    def __init__(self, base: Path, *, module: bool = False) -> None:
        self.base = base
        self.module = module
        self.tree = base / "tree"
        self.run_directory = base / "run"
        self.shares = self.run_directory / "shares"
        self.devices = base / "devices"
        # The folder of the nodes by number, which a server needs and only the wrapper makes.
        self.numbers = base / "char"
        # The log file that the container engine reads.
        self.log = base / "log.json"
        self.place = base / "bundle"
        self.config = self.place / "config.json"

    def build(self, engine: str | None = None) -> Self:
        """Make the engine, the runtime and a bundle that asks for a slice of the first card."""
        engine = engine or f"{'cgpu_km' if self.module else 'cgpud'} 0.1.0"
        for directory in (self.run_directory, self.place, self.numbers):
            directory.mkdir(parents=True)
        major = 195 if self.module else 0
        tree = PlainTree(self.base).build(T4, T4)
        tree.write({"engine": engine, "major": major, "0/minor": 0, "1/minor": 1})
        if not self.module:
            (self.run_directory / "cdi.json").write_text(json.dumps(cdi_document()))
            (self.run_directory / "seccomp.sock").touch()
        self.devices.write_text(DEVICES)
        self.bundle(spec(*ASKING, FIRST))
        note = f'printf "%s\\0" "$@" >{self.base}/calls'
        return self.runtime(f'if [ "$1" = features ]; then echo "{{}}"; else {note}; fi\n')

    def runtime(self, script: str) -> Self:
        """Make the low-level runtime out of shell lines."""
        return self.settings(low_level_runtime=str(program(self.base / "runc", script)))

    def settings(self, **settings: object) -> Self:
        path = self.run_directory / "config.json"
        kept = json.loads(path.read_text()) if path.exists() else {"tree": str(self.tree)}
        path.write_text(json.dumps({**kept, **settings}))
        return self

    def bundle(self, document: object) -> bytes:
        """Write the bundle's config.json, bytes as they are; return them."""
        raw = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.config.write_bytes(raw)
        return raw

    def command(self, *arguments: str) -> list[str]:
        return [*self.python(RUNNER), *as_read(arguments), *arguments]

    def python(self, code: str) -> list[str]:
        """Return the command that runs code with the paths of this node."""
        return ["/usr/bin/python3", "-IS", "-c", PLACES.format(root=str(ROOT), paths=self.places()) + code]

    def places(self) -> dict[str, str]:
        """Return the paths of this node, by their names in cgpu.paths."""
        run = self.run_directory
        places = {
            "RUN": run,
            "EFFECTIVE": run / "config.json",
            "EVENTS": run / "events.log",
            "REFUSED": run / "config-refused.json",
            "CDI": run / "cdi.json",
            "SECCOMP_SOCKET": run / "seccomp.sock",
            "SHARES": self.shares,
            "CONFIG": self.base / "config.yaml",
            "CONFIGURED": self.base / "configured",
            "DEVICES": self.devices,
            "DEVICE_NUMBERS": self.numbers,
        }
        if self.module:
            places["TREE_MODULE"] = self.tree
        return {name: str(place) for name, place in places.items()}

    def call(self, *arguments: str) -> Result:
        """Run the wrapper with a log file and these arguments."""
        words = ("--log", str(self.log), "--log-format", "json", *arguments)
        return self.run(*self.command(*words))

    def run(self, *command: str) -> Result:
        done = subprocess.run(command, capture_output=True, check=False, timeout=240, cwd=self.base)
        assert done.stdout == b""
        return Result(done.returncode, done.stderr.decode())

    def creating(self) -> list[str]:
        """Return the command that creates the bundle's container, without a log."""
        return self.command("create", "--bundle", str(self.place), "c1")

    def start(self, *variables: str) -> JsonObject:
        """Create a container with these variables, which has to work; return its edited config.json."""
        self.bundle(spec(*variables))
        assert self.create().status == 0
        return self.edited()

    def edited(self) -> JsonObject:
        found: JsonObject = json.loads(self.config.read_text())
        return found

    def imported(self, document: JsonObject) -> set[str]:
        """Return the modules that the wrapper has imported when it hands a container over: at its exec."""
        python, flags, _, code, *arguments = self.creating()
        report = f"open({str(self.base / 'modules')!r}, 'w').write(' '.join(sys.modules))"
        instead = f"import os\nos.execve = lambda *words: {report}\nsys.exit(main"
        self.bundle(document)
        command = [python, flags, "-c", code.replace("sys.exit(main", instead), *arguments]
        subprocess.run(command, check=False, timeout=240, capture_output=True)
        return set((self.base / "modules").read_text().split())

    def create(self, container: str = "c1") -> Result:
        return self.call("create", "--bundle", str(self.place), container)

    def started(self) -> list[str]:
        """Return the arguments the low-level runtime got, none when it was not started."""
        calls = self.base / "calls"
        return calls.read_text().rstrip("\0").split("\0") if calls.exists() else []


def refusal(wrapper: Wrapper, container: str = "c1") -> str:
    """Return the one line of a refused start, after checking that nothing was done."""
    before = wrapper.config.read_bytes() if wrapper.config.is_file() else b""
    result = wrapper.create(container)
    assert (result.status, wrapper.started()) == (1, [])
    assert result.errors.startswith("opencgpu: ")
    assert result.errors.count("\n") == 1
    assert (wrapper.config.read_bytes() if wrapper.config.is_file() else b"") == before
    assert not list(wrapper.place.glob(".config*"))
    message = result.errors.removeprefix("opencgpu: ").rstrip("\n")
    entry = json.loads(wrapper.log.read_text().splitlines()[-1])
    assert (entry["level"], entry["msg"], entry["time"][-1]) == ("error", f"opencgpu: {message}", "Z")
    return message
