# SPDX-License-Identifier: Apache-2.0
"""The control socket: one line in, one line out."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import peers
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import control
from cgpu.kmod.daemon.tree.callers import check_writer


@given(st.binary(max_size=100))
def test_any_control_line(line: bytes) -> None:
    """Any line is a request with a command, or is refused."""
    try:
        assert isinstance(control.parse(line)["command"], str)
    except CgpuError:
        return


def test_control_socket(base: Path) -> None:
    """One line in, one out; a fault in a command is an answer too."""

    def fail(request: dict[str, object]) -> dict[str, object]:
        raise CgpuError("not now")

    path = str(base / "control.sock")
    assert control.ask(path, {"command": "status"}) is None
    sock = control.ControlSocket(path, {"status": lambda request: {"x": request.get("n")}, "fail": fail})
    sock.sock.setblocking(True)

    def serve() -> None:
        for _ in range(4):
            sock.handle()

    server = threading.Thread(target=serve)
    server.start()
    assert control.ask(path, {"command": "status", "n": 5}) == {"ok": True, "x": 5}
    assert control.ask(path, {"command": "fail"}) == {"ok": False, "error": "not now"}
    assert control.ask(path, {"command": "other"}) == {
        "ok": False,
        "error": "no such command; expected one of status, fail",
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        client.sendall(b"x" * 5000 + b"\n")
        assert json.loads(client.recv(1000))["ok"] is False
    server.join()
    sock.close()
    assert not Path(path).exists()


@pytest.mark.parametrize("command", ["tree", "state", "status"])
def test_one_that_may_write_has_the_tree_alone(
    base: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A process of another mount namespace that may write to the tree, as in a pod, gets no state."""

    def check_peer(_: socket.socket, rule: peers.Rule = peers.check_namespaces) -> None:
        if rule is not check_writer:
            raise peers.RefusedError(peers.MOUNTS_DIFFER)

    monkeypatch.setattr(peers, "check_peer", check_peer)
    path = str(base / "control.sock")
    answers = dict.fromkeys(("tree", "state", "status"), lambda _: {"x": 1})
    sock = control.ControlSocket(path, answers)
    sock.sock.setblocking(True)
    server = threading.Thread(target=sock.handle)
    server.start()
    try:
        if command == "tree":
            assert control.ask(path, {"command": command}) == {"ok": True, "x": 1}
        else:
            with pytest.raises(CgpuError, match="another mount namespace"):
                control.ask(path, {"command": command})
    finally:
        server.join()
        sock.close()


def test_dripping_client_does_not_hold_the_daemon_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is for the whole line, not for each byte of it."""
    monkeypatch.setattr(control, "WAIT_S", 0.3)
    path = str(base / "control.sock")
    sock = control.ControlSocket(path, {})
    sock.sock.setblocking(True)
    server = threading.Thread(target=sock.handle)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        server.start()
        sent = 0
        while server.is_alive() and sent < 50:
            with contextlib.suppress(OSError):
                client.send(b" ")
            sent += 1
            server.join(0.1)
        assert sent < 50
    server.join()
    sock.close()
