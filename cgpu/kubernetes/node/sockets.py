# SPDX-License-Identifier: Apache-2.0
"""Sockets of an agent below the kubelet's folder, and those that killed agents have left there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cgpu.kubernetes.names import DRIVER

CONNECT_S = 1.0


@dataclass(frozen=True, slots=True)
class Sockets:
    """The sockets of one agent. registration: in the folder that the kubelet watches.

    registered: a file that is there while the kubelet knows the agent, for the probe of its pod.
    """

    registration: Path
    service: Path
    registered: Path

    @staticmethod
    def of(kubelet: Path, pod: str) -> Sockets:
        """Return those of one agent below the kubelet's folder. pod: UID of the agent's pod; may be empty."""
        end = f"-{pod}" if pod else ""
        return Sockets(
            kubelet / "plugins_registry" / f"{DRIVER}{end}-reg.sock",
            kubelet / "plugins" / DRIVER / f"dra{end}.sock",
            kubelet / "plugins" / DRIVER / f"registered{end}",
        )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other agents of the node from opening and removing sockets. Raises OSError.

        The agent's own folder is for root alone. Nothing else says who calls the agent: it is in a pod, whose
        PID namespace does not have the kubelet, so the kernel names no process (cgpu/peers.py). The
        other folder is the kubelet's.
        """
        for path in (self.service, self.registration):
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.service.parent.chmod(0o700)
        fd = os.open(self.service.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def remove_dead(self) -> list[Path]:
        """Remove sockets of agents of this driver without a server, and return them.

        Only within alone(): a socket that is about to be served refuses connections, too. Raises OSError.
        """
        # Registration sockets go first: by them the kubelet finds an agent.
        found = [
            *self.registration.parent.glob(f"{DRIVER}-*reg.sock"),
            *self.service.parent.glob("dra*.sock"),
        ]
        dead = [path for path in found if _refuses(path)]
        for path in dead:
            path.unlink(missing_ok=True)
        for path in self.registered.parent.glob("registered*"):
            if not path.with_name(f"dra{path.name.removeprefix('registered')}.sock").exists():
                path.unlink(missing_ok=True)
        return dead


def _refuses(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
        client.settimeout(CONNECT_S)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
