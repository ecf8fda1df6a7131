# SPDX-License-Identifier: Apache-2.0
"""Orders to the engine's sockets by root of a container that sees the node's /run, read-only.

Container runtimes have had holes by mounted sockets of theirs for as long as there have been monitoring
containers with the host's /run or /var/run.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.attacks.build import alone
from tests.daemon.harness import PROGRAMS, Daemon, long_id, short_path
from tests.integration.commands import Outcome, call, eventually
from tests.integration.runtimes import Runc

pytestmark = pytest.mark.root
Messages = Callable[[Daemon, str], list[str]]
# Capabilities that the tree asks for, and that open files and processes of others: useless in a container.
CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE")


def program(marker: str) -> dict[str, object]:
    """Return a program that leaves a marker, in the form of an upgrade."""
    return {"argv": ["/bin/sh", "-c", f"touch {marker}"]}


def orders_to_keeper(node: Daemon, marker: str) -> list[str]:
    arguments, named = json.dumps(node.options()), json.dumps(program(marker))
    return ["CGPU_STOP=1", f"CGPU_START={arguments}\nCGPU_PROGRAM={named}"]


def upgrade(_node: Daemon, marker: str) -> list[str]:
    return [json.dumps({"command": "upgrade", "number": "1", **program(marker)}) + "\n"]


@dataclass(frozen=True)
class Socket:
    """One of the engine's sockets, and a question for it.

    heard, refused: words of the answer or of the engine's log after an accepted question, and after a refused
    one.
    """

    name: str
    kind: str
    messages: Messages
    heard: str
    refused: str


CONTROL = Socket("control.sock", "stream", upgrade, '"ok": true', '"ok": false')
KEEPER = Socket("keeper.sock", "dgram", orders_to_keeper, "[ready]", "the keeper: refused")


@pytest.fixture
def node() -> Iterator[Daemon]:
    """An engine with a container registered, in a folder that stands for the node's /run."""
    with short_path() as base:
        daemon = Daemon(base)
        daemon.slice(1, "gpu=0:1048576", "hold", until="hold")
        yield daemon
        daemon.close()


def run_in_container(
    folder: Path, seen: Path, capabilities: Sequence[str], program: Path, *words: str
) -> Outcome:
    """Run a program by root of a container that sees one of the host's folders, read-only."""
    runc = Runc(folder, launcher=Path("runc"))
    spec = runc.spec(["/program", *words], {})
    process, mounts = spec["process"], spec["mounts"]
    assert isinstance(process, dict)
    assert isinstance(mounts, list)
    process["capabilities"] = {
        name: list(capabilities) for name in ("bounding", "effective", "permitted", "inheritable", "ambient")
    }
    for source, destination in ((program, "/program"), (seen, str(seen))):
        mounts.append({"source": str(source), "destination": destination, "options": ["rbind", "ro"]})
    try:
        return runc.run_bundle(runc.bundle(spec), "asking")
    finally:
        runc.close()


@pytest.mark.parametrize(
    ("socket", "capabilities"),
    [(CONTROL, ()), (CONTROL, CAPABILITIES), (KEEPER, ()), (KEEPER, CAPABILITIES)],
    ids=lambda value: value.name if isinstance(value, Socket) else " ".join(value) or "none",
)
def test_orders(node: Daemon, tmp_path: Path, socket: Socket, capabilities: Sequence[str]) -> None:
    """The engine refuses a container's question, and logs that once. It answers root of the host.

    The keeper lets no asker choose the program that it starts.
    """
    marker = tmp_path / "marker"
    words = [str(node.run / socket.name), socket.kind, *socket.messages(node, str(marker))]
    before = node.pid()
    done = run_in_container(tmp_path, node.run, capabilities, alone("ask", "-static"), *words)
    assert done.text.count("answered [") == len(words) - 2, done
    assert socket.heard not in done.text + node.log()
    assert not marker.exists()
    assert node.pid() == before
    assert (done.text + node.log()).count(socket.refused) == 1
    on_host = call([alone("ask", "-static"), *words])
    eventually(lambda: socket.heard in on_host.text + node.log(), "root of the host is listened to")
    assert socket is CONTROL or not marker.exists()


def test_flood_of_the_listeners_socket(node: Daemon, tmp_path: Path) -> None:
    """While 200 processes of a container connect all the time, runtimes reach the engine at once.

    The container sees the tree, too. A runtime in Go does not wait where a socket's queue is full.
    """
    path, seen = str(node.run / "seccomp.sock"), node.run.parent
    program = alone("flood", "-static", place=PROGRAMS)
    with ThreadPoolExecutor(1) as pool:
        flood = pool.submit(run_in_container, tmp_path, seen, (), program, path, "200", "5000")
        for _ in range(100):
            with socket.socket(socket.AF_UNIX) as runtime:
                runtime.setblocking(False)
                runtime.connect(path)
            time.sleep(0.05)
        said = flood.result().text.split()
    assert (said.count("connected"), said.count("refused")) == (0, 200)
    # One with CAP_SYS_ADMIN can register containers, and so have listeners for them.
    message = json.dumps({"fds": ["seccompFd"], "pid": 1, "state": {"id": long_id(1)}})
    program = alone("ask", "-static")
    done = run_in_container(tmp_path / "other", seen, CAPABILITIES, program, path, "stream", message)
    assert "sent: all" in done.text
    eventually(lambda: "is no seccomp listener" in node.log(), "its listener is refused")
