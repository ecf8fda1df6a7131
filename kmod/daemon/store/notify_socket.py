# SPDX-License-Identifier: Apache-2.0
"""The sending end of sd_notify(3): readiness, descriptors that outlive this process, orders to the keeper."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

from cgpu.unix_socket import await_event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FIRST_FD = 3  # SD_LISTEN_FDS_START
# Orders to the keeper by a cgpud that is not its child.
START = "CGPU_START"  # = JSON list of arguments: start the daemon, if none runs; the answer is one line
STOP = "CGPU_STOP"  # = 1: no daemon is to run or to be tried; no answer but the pipe's end
END = "CGPU_END"  # = 1: the same, and the keeper closes its descriptors
# Names of descriptors that are stored for the next daemon: as long as there is one, something waits for it.
LISTENER = "listener-"  # begins the name of a container's
RESERVED = "reserved"  # there while reservations wait; the descriptor itself is of no use
MAX_LINE = 4096


class NotifySocket:
    """Talks to systemd or to the keeper; to nobody when there is no address."""

    def __init__(self, address: str | None) -> None:
        """address: value of NOTIFY_SOCKET; a leading @ is the abstract namespace."""
        self.address = address

    def send(self, text: str, fds: Sequence[int] = ()) -> None:
        """Send one message. Does nothing without an address. Raises OSError when nobody takes it."""
        if not self.address:
            return
        abstract = self.address.startswith("@")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.connect("\0" + self.address[1:] if abstract else self.address)
            if fds:
                socket.send_fds(out, [text.encode()], list(fds))
            else:
                out.send(text.encode())

    def store(self, name: str, fd: int, *, watched: bool = True) -> None:
        """Leave a copy of a descriptor in the store under a name.

        watched: it may be polled there, and is dropped when it hangs up.
        """
        self.send(f"FDSTORE=1\nFDNAME={name}" + ("" if watched else "\nFDPOLL=0"), [fd])

    def discard(self, name: str) -> None:
        """Take a name's descriptors out of the store; a manager that is dead has none."""
        with contextlib.suppress(OSError):
            self.send(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def status(self, line: str) -> None:
        """Report the daemon's status in one line. A dead manager is no reason to fail."""
        with contextlib.suppress(OSError):
            self.send("STATUS=" + line.replace("\n", " "))


def is_heard(path: Path) -> bool:
    """Tell whether somebody listens at a notify socket; its file may have outlived that process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        try:
            out.connect(str(path))
        except OSError:
            return False
    return True


def order(keeper: Path, what: str, wait_s: float | None = None) -> str | None:
    """Give the keeper an order, and return its answer; empty: it has none, or was not heeded.

    The keeper answers by a pipe that comes with the order. None: no keeper listens, or none answered in time.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            NotifySocket(str(keeper)).send(what, [writer])
        except OSError:
            return None
        finally:
            os.close(writer)
        if not await_event(reader, wait_s):
            return None
        return os.read(reader, MAX_LINE).decode("utf-8", "replace").strip()
    finally:
        os.close(reader)


def inherited(environment: Mapping[str, str], pid: int) -> list[tuple[str, int]]:
    """Return names and numbers of the descriptors that were handed over, sd_listen_fds_with_names(3).

    Anything malformed counts as none.
    """
    try:
        if int(environment.get("LISTEN_PID", "0")) != pid:
            return []
        count = int(environment.get("LISTEN_FDS", "0"))
    except ValueError:
        return []
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    if count <= 0 or len(names) != count:
        return []
    found = []
    for number, name in enumerate(names, FIRST_FD):
        with contextlib.suppress(OSError):
            os.set_inheritable(number, False)
            found.append((name, number))
    return found
