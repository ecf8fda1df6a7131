# SPDX-License-Identifier: Apache-2.0
"""The control socket: one line of JSON in, one out, and perhaps a descriptor. For root of the host."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from cgpu import peers, unix_socket
from cgpu.errors import CgpuError, one_line, show
from cgpu.kmod.daemon.tree.callers import check_writer

log = logging.getLogger(__name__)

MAX_LINE = 4096
MAX_ANSWER = 1 << 22
WAIT_S = 2.0
PASSED = "passed"  # in a handler's result: a descriptor for the asking process, closed here once it is sent
REFUSED = "refused"  # in an answer: why this process may not ask
# Every process that may write to the tree may send these: Kubernetes' agent, in a pod, is one.
WRITERS_COMMANDS = frozenset({"tree"})

Handler = Callable[[dict[str, Any]], dict[str, Any]]


def parse(line: bytes) -> dict[str, Any]:
    """Read one request. Raises CgpuError."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CgpuError("the request is not one line of JSON") from error
    if not isinstance(request, dict) or not isinstance(request.get("command"), str):
        raise CgpuError('the request is not of the form {"command": "status"}')
    return request


class ControlSocket:
    """Answers requests one after the other; they are short and rare."""

    def __init__(self, path: str, commands: dict[str, Handler], sock: socket.socket | None = None) -> None:
        """Bind, unless an earlier daemon's socket is there. Raises OSError."""
        self._path = path
        self._commands = commands
        self.sock = sock or unix_socket.listen(path)

    def fileno(self) -> int:
        """A descriptor that is readable when a request comes."""
        return self.sock.fileno()

    def handle(self) -> None:
        """Answer one request."""
        try:
            sock, _ = self.sock.accept()
        except OSError:
            return
        with sock:
            sock.settimeout(WAIT_S)
            try:
                _send(sock, self._answer(sock))
            except BrokenPipeError:
                return  # it has not waited for its answer
            except OSError as error:
                log.warning("control socket: %s", error)

    def close(self) -> None:
        """Take the socket away."""
        self.sock.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _answer(self, sock: socket.socket) -> dict[str, Any]:
        try:
            # The daemon reads nothing of other processes: they could keep it waiting for the end of a line.
            refused = _refusal(sock)
            request = parse(_read_line(sock, MAX_LINE, WAIT_S))
            if refused is not None and request["command"] not in WRITERS_COMMANDS:
                raise refused
            handler = self._commands.get(request["command"])
            if handler is None:
                raise CgpuError(f"no such command; expected one of {', '.join(self._commands)}")
            return {"ok": True, **handler(request)}
        except peers.RefusedError as error:
            peers.report("control socket", error)
            return {"ok": False, REFUSED: str(error)}
        except CgpuError as error:
            return {"ok": False, "error": str(error)}


def _refusal(sock: socket.socket) -> peers.RefusedError | None:
    """Return why the process that has connected may ask WRITERS_COMMANDS alone; None: it may ask everything.

    Raises RefusedError when it may ask nothing.
    """
    try:
        peers.check_peer(sock)
    except peers.RefusedError as refused:
        try:
            peers.check_peer(sock, check_writer)
        except peers.RefusedError:
            raise refused from None
        return refused
    return None


def ask(path: str, request: dict[str, Any], wait_s: float = WAIT_S) -> dict[str, Any] | None:
    """Send a request to a running daemon; None when there is none, or one that is ending.

    Raises CgpuError when it does not answer, or refuses this process.
    """
    return _exchange(path, request, wait_s)[0]


def ask_descriptor(path: str, command: str) -> int | None:
    """Return the descriptor that a running daemon passes on a command; None as with ask().

    Raises CgpuError when it passes none, as for a command that does not exist.
    """
    answer, fds = _exchange(path, {"command": command}, WAIT_S)
    if fds:
        return fds[0]
    if answer is None:
        return None
    raise CgpuError(f"{path}: {command}: the daemon passes no descriptor: {show(json.dumps(answer))}")


def _exchange(path: str, request: dict[str, Any], wait_s: float) -> tuple[dict[str, Any] | None, list[int]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(wait_s)
        try:
            sock.connect(path)
            # A process that is refused is answered before it has asked.
            with contextlib.suppress(BrokenPipeError):
                sock.sendall(json.dumps(request).encode() + b"\n")
            begin, fds, _, _ = socket.recv_fds(sock, MAX_LINE, 1, socket.MSG_CMSG_CLOEXEC)
            line = _read_line(sock, MAX_ANSWER, wait_s, begin) if begin else b""
            answer = json.loads(line) if line else None
        except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            return None, []
        except PermissionError as error:
            raise CgpuError(
                f"{path}: only root reaches the daemon; run it as root, such as by sudo"
            ) from error
        except (OSError, ValueError) as error:
            raise CgpuError(f"{path}: the daemon does not answer: {error}") from error
    if not isinstance(answer, dict):
        return None, fds
    if REFUSED in answer:
        why = one_line(str(answer[REFUSED]))
        raise CgpuError(f"{path}: {why}: {_advice(why)}")
    return answer, fds


def _advice(why: str) -> str:
    """Say where one that was refused may ask: one of the host's PID namespace can enter its mounts."""
    if peers.MOUNTS_DIFFER in why:
        return "run it in the host's: nsenter -t 1 -m -- COMMAND"
    return "run it outside of containers"


def _send(sock: socket.socket, answer: dict[str, Any]) -> None:
    passed = answer.pop(PASSED, None)
    line = json.dumps(answer).encode() + b"\n"
    if passed is None:
        sock.sendall(line)
        return
    try:
        socket.send_fds(sock, [line], [passed])
    finally:
        os.close(passed)


def _read_line(sock: socket.socket, limit: int, wait_s: float, text: bytes = b"") -> bytes:
    # The limit is for the whole line: single bytes that come slowly must not delay the daemon.
    deadline = time.monotonic() + wait_s
    while b"\n" not in text and len(text) <= limit:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the line did not come whole in time")
        sock.settimeout(left)
        part = sock.recv(1 << 16)
        if not part:
            break
        text += part
    sock.settimeout(wait_s)
    if len(text) > limit:
        raise CgpuError(f"a line of more than {limit} bytes")
    return text
