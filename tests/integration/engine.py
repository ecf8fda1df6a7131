# SPDX-License-Identifier: Apache-2.0
"""The daemon engine as a user starts it, on the default paths."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.integration.commands import ENFORCE, Command, Outcome, call, eventually, must
from tests.integration.images import ROOT

CGPUD = Path(sys.executable).parent / "cgpud"
SMI = Path(sys.executable).parent / "cgpu-smi"
CGPU = Path(sys.executable).parent / "cgpu"
RUN = Path("/run/cgpu")
TREE = Path("/run/cgpu_km")
MIB = 1 << 20
WRAPPER_SOCKET = Path("/run/cgpu-container-runtime.sock")
WRAPPER_SERVER = f"""
import sys
sys.path.append({str(ROOT)!r})
from cgpu.runtime_config.oci_runtime import server
server.run([])
"""


@contextmanager
def wrapper_server() -> Iterator[None]:
    """Run the server of the wrapper, with no more than the system's Python has."""
    command = ["/usr/bin/python3", "-IS", "-c", WRAPPER_SERVER]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: WRAPPER_SOCKET.exists() or server.poll() is not None, "it listens")
        assert server.poll() is None, "the wrapper's server has ended"
        yield
    finally:
        server.terminate()
        server.wait()
    WRAPPER_SOCKET.unlink()


class Engine:
    """One cgpud with simulated cards."""

    def __init__(self, cards: str, config: Mapping[str, object], directory: Path) -> None:
        """Remember how to start it. config holds keys of /etc/cgpu/config.yaml."""
        self.asked_for = (cards, dict(config))
        self.cards = cards
        #: of a daemon that runs already; a node of its own has its own
        self.cgpud: Command = [CGPUD]
        if os.environ.get(ENFORCE) == "off":
            config = {"enforce": False, **config}
        self.config = directory / "config.yaml"
        self.config.write_text(yaml.safe_dump(dict(config)) if config else "{}\n")

    def start(self) -> None:
        must([CGPUD, "--simulate", self.cards, "--config", self.config])

    def stop(self) -> Outcome:
        return call([*self.cgpud, "--stop", "--force"])

    def status(self) -> dict[str, object]:
        answer: dict[str, object] = json.loads(must([*self.cgpud, "--status"]).stdout)
        return answer

    def pid(self) -> int:
        """Return the process that serves the tree and the calls."""
        pid = self.status()["pid"]
        assert isinstance(pid, int)
        return pid

    def kill(self) -> int:
        """Kill that process as a crash would; return its number."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def await_restart(self, old_pid: int) -> None:
        def serves() -> bool:
            outcome = call([*self.cgpud, "--status"])
            return outcome.returncode == 0 and json.loads(outcome.stdout)["pid"] != old_pid

        eventually(serves, "cgpud is started again")

    @staticmethod
    def serves() -> bool:
        # Path.exists() raises where an engine that is just ending answers ENOTCONN.
        return os.path.exists(TREE / "version")

    def read(self, node: str) -> str:
        return (TREE / node).read_text()

    def write(self, node: str, text: str) -> None:
        (TREE / node).write_text(text)

    def gpus(self) -> list[str]:
        return sorted((p.name for p in TREE.iterdir() if p.is_dir()), key=int)

    def instances(self, gpu: str = "0") -> list[str]:
        return sorted(p.name for p in (TREE / gpu).iterdir() if p.is_dir())

    def used(self, gpu: str, instance: str) -> int:
        memsize = int(self.read(f"{gpu}/{instance}/memsize"))
        free = self.read(f"{gpu}/{instance}/meminfo").splitlines()[0]
        return memsize - int(free.removeprefix("Free: "))

    def card_used(self, gpu: str = "0") -> int:
        """Return what the card itself says is taken."""
        return int(self.read(f"{gpu}/memtotal")) - int(self.read(f"{gpu}/memfree"))

    def await_empty(self) -> None:
        """Wait until no container is registered and every card is free again."""
        for gpu in self.gpus():
            eventually(lambda gpu=gpu: self.instances(gpu) == [], f"GPU {gpu} has no container")  # type: ignore[misc]
            if self.read(f"{gpu}/mig") == "0\n":  # a card in MIG mode has no free memory to tell of
                eventually(lambda gpu=gpu: self.card_used(gpu) == 0, f"GPU {gpu} is free")  # type: ignore[misc]

    @staticmethod
    def assert_nothing_left() -> None:
        """Fail when a mount, socket or process of an engine is left."""

        def left() -> list[str]:
            mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if "/run/cgpu" in line]
            sockets = [str(path) for path in RUN.glob("*.sock")]
            return (
                mounts
                + sockets
                + [line for line in processes() if f"{CGPUD} " in line or f"--mount {RUN}/" in line]
            )

        eventually(lambda: not left(), "nothing is left of the engine")


class Engines:
    """The engines of a file's tests: one at a time, each for as long as tests ask for the same."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: Engine | None = None

    def get(self, cards: str = "T4", **config: object) -> Engine:
        """Return the engine that runs, if it has these cards and this configuration, or start another."""
        if self._running is None or self._running.asked_for != (cards, config):
            self.stop()
            engine = Engine(cards, config, self._directory)
            engine.start()
            self._running = engine
        return self._running

    def stop(self) -> None:
        """Stop the engine that runs; fail where something is left of it."""
        if self._running is not None:
            self._running.stop()
            self._running = None
            Engine.assert_nothing_left()

    def tidy(self) -> None:
        """Fail where a test has left a container. Stop an engine that does not serve or is not empty."""
        is_empty = False
        try:
            if self._running is not None and Engine.serves():
                self._running.await_empty()
                is_empty = True
        finally:
            if not is_empty:
                self.stop()


def processes() -> list[str]:
    """Return number and command line of every engine and simulated card in our mount namespace."""
    found = []
    for line in call(["pgrep", "-af", "cgpud|cgpu-sim"]).stdout.splitlines():
        namespace = Path("/proc") / line.split()[0] / "ns" / "mnt"
        try:
            if namespace.readlink() == Path("/proc/self/ns/mnt").readlink():
                found.append(line)
        except OSError:
            continue  # it has ended meanwhile
    return found
