# SPDX-License-Identifier: Apache-2.0
"""The wrapper with a server beside it: the launcher in C, with all its paths in its current folder."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cgpu.runtime_config.oci_runtime.server import WORKERS
from tests.integration.commands import eventually
from tests.runtime_config.oci_runtime.wrapper import Result, Wrapper
from tests.runtime_config.support import ROOT, SANITIZERS, compile_launcher

SOCKET = "server.sock"
NO_PYTHON = "opencgpu: cannot start /nowhere/python3: No such file or directory; install this Python\n"
# Result of a start that the server leaves to Python, where there is none.
LEFT = Result(1, NO_PYTHON)
# Program that the launcher starts where the server leaves a call to it.
LAUNCH = """
import os, sys
sys.path.append({root!r})
from cgpu import paths
for line in open("places"):
    name, _, place = line.rstrip("\\n").partition("=")
    setattr(paths, name, place)
from cgpu.runtime_config.oci_runtime.main import main
sys.exit(main(sys.argv[1:]))
"""
SERVER = """
for socket in {inherited!r}:
    os.dup2(socket, 3)
    os.close(socket)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
from cgpu.runtime_config.oci_runtime import lowlevel
lowlevel.LAUNCHER = {program!r}
from cgpu.runtime_config.oci_runtime import server
{changes}
sys.exit(server.run(["--socket", {socket!r}]))
"""


def build_launcher(
    folder: Path,
    python: str = "/usr/bin/python3",
    options: Sequence[str] = SANITIZERS,
    **times: int,
) -> Path:
    """Compile a launcher for any node; python: its program in place of the server. Return its path."""
    program = folder / "launcher" / "cgpu-container-runtime"
    program.parent.mkdir(parents=True)
    (folder / "oci_runtime").mkdir()
    (folder / "oci_runtime" / "launch.py").write_text(LAUNCH.format(root=str(ROOT)))
    places = {"CGPU_LINK_PATH": "low-level-runtime", "CGPU_SERVER_PATH": SOCKET, "CGPU_PYTHON": python}
    compile_launcher(program, options, **places, **times)
    return program


class Served(Wrapper):
    """A node whose wrapper is the launcher."""

    def __init__(self, base: Path, program: Path, *, module: bool = False) -> None:
        super().__init__(base, module=module)
        self.program = program
        self.socket = base / SOCKET

    def command(self, *arguments: str) -> list[str]:
        lines = (f"{name}={place}\n" for name, place in self.places().items())
        (self.base / "places").write_text("".join(lines))
        return [str(self.program), *arguments]

    def serving(self, inherited: Sequence[int] = (), changes: str = "") -> list[str]:
        """Return the command of a server that knows this node's launcher; changes: lines of Python in it."""
        places = {"program": str(self.program), "socket": str(self.socket)}
        return self.python(SERVER.format(inherited=list(inherited), changes=changes, **places))

    @contextmanager
    def server(
        self, given: int | None = None, before: tuple[str, ...] = (), changes: str = ""
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a server that knows this node's launcher.

        given: the descriptor of its socket, as from systemd. before: a program to put in front of it.
        changes: lines of Python that it runs before it listens.
        """
        inherited = () if given is None else (given,)
        running = subprocess.Popen([*before, *self.serving(inherited, changes)], pass_fds=inherited)
        try:
            eventually(self._answers, "the server listens")
            yield running
        finally:
            running.terminate()
            running.wait(timeout=240)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            return connection.connect_ex(str(self.socket)) == 0


def workers(server: int) -> list[int]:
    """Return the workers that a server has, once it has all of them."""
    eventually(lambda: len(children(server)) == WORKERS, "there are workers")
    return children(server)


def children(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def state(pid: int) -> str:
    """Return the letter of a process's state, Z where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return "Z"


def assert_lets_go(worker: int) -> None:
    eventually(lambda: not held(worker), "all is closed", instead=lambda: held(worker))


def leads_to(link: Path) -> str:
    """Return where a link of a process leads, nowhere where it is closed by now."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def held(worker: int) -> list[str]:
    """Return what a process has open of a start: folders, files, and sockets but the one that listens."""
    process = Path(f"/proc/{worker}")
    links = [leads_to(one) for one in (process / "cwd", *(process / "fd").iterdir())]
    sockets = [link for link in links if link.startswith("socket:")]
    return [
        link for link in links if link != "/" and (os.path.isdir(link) or "config.json" in link)
    ] + sockets[1:]
