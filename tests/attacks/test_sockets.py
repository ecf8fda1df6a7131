# SPDX-License-Identifier: Apache-2.0
"""Orders to the engine's sockets by root of a container that sees the node's /run, read-only.

Container runtimes have had holes by mounted sockets of theirs for as long as there have been monitoring
containers with the host's /run or /var/run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.attacks.build import alone
from tests.daemon.harness import Daemon, long_id, short_path
from tests.daemon.supervise.test_unfiltered import JOINED, PLACES
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


def listener(_node: Daemon, _marker: str) -> list[str]:
    return [json.dumps({"fds": ["seccompFd"], "pid": 1, "state": {"id": long_id(1)}})]


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
LISTENERS = Socket("seccomp.sock", "stream", listener, "is no seccomp listener", "listeners' socket: refused")


@pytest.fixture
def node() -> Iterator[Daemon]:
    """An engine with a container registered, in a folder that stands for the node's /run."""
    with short_path() as base:
        daemon = Daemon(base)
        daemon.slice(1, "gpu=0:1048576", "hold", until="hold")
        yield daemon
        daemon.close()


def ask_in_container(folder: Path, run: Path, capabilities: Sequence[str], *words: str) -> Outcome:
    runc = Runc(folder, launcher=Path("runc"))
    spec = runc.spec(["/ask", *words], {})
    process, mounts = spec["process"], spec["mounts"]
    assert isinstance(process, dict)
    assert isinstance(mounts, list)
    process["capabilities"] = {
        name: list(capabilities) for name in ("bounding", "effective", "permitted", "inheritable", "ambient")
    }
    for source, destination in ((alone("ask", "-static"), "/ask"), (run, str(run))):
        mounts.append({"source": str(source), "destination": destination, "options": ["rbind", "ro"]})
    try:
        return runc.run_bundle(runc.bundle(spec), "asking")
    finally:
        runc.close()


@pytest.mark.parametrize(
    ("socket", "capabilities"),
    # A process with CAP_SYS_ADMIN can register containers, and so have listeners for them.
    [(CONTROL, ()), (CONTROL, CAPABILITIES), (KEEPER, ()), (KEEPER, CAPABILITIES), (LISTENERS, ())],
    ids=lambda value: value.name if isinstance(value, Socket) else " ".join(value) or "none",
)
def test_orders(node: Daemon, tmp_path: Path, socket: Socket, capabilities: Sequence[str]) -> None:
    """The engine refuses a container's question, and logs that once. It answers root of the host.

    The keeper lets no asker choose the program that it starts.
    """
    marker = tmp_path / "marker"
    words = [str(node.run / socket.name), socket.kind, *socket.messages(node, str(marker))]
    before = node.pid()
    done = ask_in_container(tmp_path, node.run, capabilities, *words)
    assert done.text.count("answered [") == len(words) - 2, done
    assert socket.heard not in done.text + node.log()
    assert not marker.exists()
    assert node.pid() == before
    assert (done.text + node.log()).count(socket.refused) == 1
    on_host = call([alone("ask", "-static"), *words])
    eventually(lambda: socket.heard in on_host.text + node.log(), "root of the host is listened to")
    assert socket is CONTROL or not marker.exists()


@contextmanager
def container_of_others(container_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process in a control group that is named as a runtime names that of a container."""
    found = [place for place in PLACES if (place / "cgroup.procs").exists() and place.is_mount()]
    if not found:
        pytest.skip("no hierarchy of control groups is mounted")
    group = found[0] / container_id
    group.mkdir()
    command = ["/bin/sh", "-c", JOINED, str(group / "cgroup.procs"), "sleep", "1000"]
    with subprocess.Popen(command) as process:
        try:
            eventually(lambda: str(process.pid) in (group / "cgroup.procs").read_text(), "it joins its group")
            yield process
        finally:
            process.kill()
    eventually(lambda: not (group / "cgroup.procs").read_text(), "a process stays in the group")
    group.rmdir()


def test_ended_sender_ends_nobody(node: Daemon, tmp_path: Path) -> None:
    """A process that has ended before the engine looks names others' processes: these go on.

    What is known of it is that it was root's, in whatever container.
    """
    sliced = node.slice(2, "gpu=0:1048576", "hold", until="hold")
    others = long_id(os.getpid())  # no other run of the tests has this group
    with container_of_others(others) as other:
        named = {sliced.id: sliced.process.pid, others: other.pid}
        messages = [
            json.dumps({"fds": ["seccompFd"], "pid": pid, "state": {"id": container_id}})
            for container_id, pid in named.items()
        ]
        os.kill(node.pid(), signal.SIGSTOP)
        try:
            ask_in_container(tmp_path, node.run, (), str(node.run / LISTENERS.name), "leave", *messages)
        finally:
            os.kill(node.pid(), signal.SIGCONT)
        eventually(lambda: "is not registered: its listener is closed" in node.log(), "it is heard")
        assert LISTENERS.heard in node.log()
        assert sliced.process.poll() is None
        assert other.poll() is None
