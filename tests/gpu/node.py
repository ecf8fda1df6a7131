# SPDX-License-Identifier: Apache-2.0
"""The engine on the default paths, and slices on it by `cgpu run`, as a user has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from cgpu import paths

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "kmod" / "build"
PROBE = BUILD / "cgpu-probe"
TABLES = ROOT / "kmod" / "abi" / "nvidia.json"
DEV = "/dev"
CONTROL_NODE = Path(DEV) / "nvidiactl"
LOG = Path(paths.RUN) / "cgpud.log"
MIB = 1 << 20
GPU = "0"
END_S = 30
SHELL = 'echo ready; while read -r line; do sh -c "$line" || true; echo ended; done'


class NodeError(Exception):
    """The node did not do what a check relies on."""


@cache
def python() -> str:
    """Return the interpreter that has the frameworks, CGPU_GPU_PYTHON or python3. Raises NodeError."""
    named = os.environ.get("CGPU_GPU_PYTHON") or "python3"
    # A version manager's shim would start shells between us and the program.
    command = [named, "-c", "import sys; print(sys.executable)"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise NodeError(f"{named}: does not run: {error}; name another with CGPU_GPU_PYTHON") from error


def environment() -> dict[str, str]:
    """Return our environment, with the checkout where every interpreter finds it."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])}


def program(name: str, *words: str) -> list[str]:
    """Return the command line of one of the programs beside us."""
    return [python(), "-m", f"tests.gpu.programs.{name}", *words]


def ours(module: str, *words: str) -> list[str]:
    """Return the command line of a command of the project."""
    return [sys.executable, "-P", "-m", module, *words]


def is_known(version: str) -> bool:
    """Tell whether a driver version is in the project's table."""
    return version in json.loads(TABLES.read_text())["tags"]


def config_for(version: str, *, enforce: bool) -> dict[str, bool]:
    """Return the engine's configuration for a driver."""
    unknown = {} if is_known(version) else {"allow_unknown_driver": True}
    return unknown if enforce else {**unknown, "enforce": False}


def probe_words(text: str, step: str) -> dict[str, str]:
    """Return the words of the last line that cgpu-probe printed for a step. Raises NodeError."""
    lines = [line for line in text.splitlines() if line.split(" ", 1)[0] == step]
    if not lines:
        raise NodeError(f"cgpu-probe printed nothing for {step}: {text.strip()[-200:]}")
    return dict(word.split("=", 1) for word in lines[-1].split() if "=" in word)


def driver_version(dev: str = DEV) -> str:
    """Return the version that the driver tells outside of any slice. Raises NodeError."""
    command = [str(PROBE), "--dev", dev, "count"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return probe_words(done.stdout + done.stderr, "count")["driver"]


class Slice:
    """A shell in a slice, which runs one program after another. Their output is read line by line."""

    def __init__(self, node: Node, mem: str, weight: int = 1) -> None:
        """Start it. Raises NodeError with what `cgpu run` said."""
        before = set(node.instances())
        self._node = node
        words = ("--mem", mem, "--weight", str(weight), "--gpus", GPU, "--", "/bin/sh", "-c", SHELL)
        command = ours("cgpu.main", "run", *words)
        pipe, both = subprocess.PIPE, subprocess.STDOUT
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe, stderr=both, text=True,
            process_group=0,
        )  # fmt: skip
        first = self._read()
        if first != "ready":
            self.close()
            raise NodeError(first)
        (self.name,) = set(node.instances()) - before

    def close(self) -> None:
        """End it, and wait until the engine has taken it back."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait(timeout=END_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def begin(self, command: list[str]) -> None:
        self.tell(" ".join(f"'{word}'" for word in command))

    def tell(self, line: str = "") -> None:
        """Give the running program a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def told(self) -> dict[str, Any]:
        """Return the next line of JSON of the running program. Raises NodeError when it ends without one."""
        other: list[str] = []
        while (line := self._read()) not in ("ended", ""):
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
            other.append(line)
        raise NodeError(f"the program ended: {' | '.join(other[-5:])}")

    def ended(self) -> str:
        """Wait for the end of the running program; return what else it printed."""
        other: list[str] = []
        while (line := self._read()) != "ended":
            if not line and self._process.poll() is not None:
                raise NodeError(f"the slice ended: {' | '.join(other[-5:])}")
            other.append(line)
        return "\n".join(other)

    def run(self, command: list[str]) -> dict[str, Any]:
        self.begin(command)
        found = self.told()
        self.ended()
        return found

    def used(self) -> int:
        """Return the bytes that the engine has charged."""
        return self._node.size(self.name) - self._node.free(self.name)

    def limit(self) -> int:
        return self._node.size(self.name)

    def settles(self, used: int) -> bool:
        """Wait until so much is charged: the driver tells of the last close a moment later."""
        deadline = time.monotonic() + 10
        while self.used() != used and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.used() == used


class Node:
    """One cgpud, with the real cards, or with simulated ones for tests of this file."""

    def __init__(self, directory: Path, driver: str, simulate: str | None = None) -> None:
        """directory: for the configuration. driver: its version."""
        self.driver = driver
        self.enforces: bool | None = None
        self._config = directory / "config.yaml"
        self._simulate = [] if simulate is None else ["--simulate", simulate]
        self.tree = Path(paths.TREE_DAEMON)

    def use(self, *, enforce: bool) -> Self:
        """Have it run with enforcement on or off. Raises NodeError."""
        if self.enforces == enforce:
            return self
        self.stop()
        self._config.write_text(json.dumps(config_for(self.driver, enforce=enforce)))
        self._cgpud("--config", str(self._config), *self._simulate)
        self.enforces = enforce
        return self

    def _cgpud(self, *words: str) -> str:
        command = ours("cgpu.kmod.daemon.main", *words)
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode != 0:
            raise NodeError(done.stderr.strip() or f"{command}: {done.returncode}")
        return done.stdout

    def stop(self) -> None:
        if self.enforces is not None:
            self._cgpud("--stop", "--force")
        self.enforces = None

    def _number(self, node: str) -> int:
        return int((self.tree / GPU / node).read_text().split("\n", 1)[0].removeprefix("Free: "))

    def set(self, node: str, value: int) -> None:
        (self.tree / GPU / node).write_text(f"{value}\n")

    def divided_by(self) -> str:
        """Return how the card's time is divided at this moment."""
        words = (self.tree / GPU / "sched").read_text().split()
        return dict(word.split("=", 1) for word in words)["divided_by"]

    def instances(self) -> list[str]:
        return sorted(entry.name for entry in (self.tree / GPU).iterdir() if entry.is_dir())

    def size(self, instance: str) -> int:
        return self._number(f"{instance}/memsize")

    def free(self, instance: str) -> int:
        return self._number(f"{instance}/meminfo")

    @contextmanager
    def slice(self, mem: str, weight: int = 1) -> Iterator[Slice]:
        """Have a slice. Raises NodeError."""
        with closing(Slice(self, mem, weight)) as found:
            yield found
