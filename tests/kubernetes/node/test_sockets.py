# SPDX-License-Identifier: Apache-2.0
"""Sockets that a killed agent leaves in the kubelet's folders, and their removal by the next one."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.kubernetes.names import DRIVER
from cgpu.kubernetes.node.sockets import Sockets

Listeners = list[socket.socket]


@pytest.fixture
def kubelet() -> Iterator[Path]:
    """A kubelet's folder. A socket's path has at most 107 bytes, which pytest's folders exceed."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def serving() -> Iterator[Listeners]:
    """Sockets that are served until the test ends."""
    found: Listeners = []
    yield found
    for one in found:
        one.close()


def bound(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    return made


def test_sockets_of_killed_agents_go(kubelet: Path, serving: Listeners) -> None:
    """Both sockets of an agent that is gone are removed; those of one that serves and of others stay."""
    own, gone, beside = (Sockets.of(kubelet, uid) for uid in ("own", "gone", ""))
    own.service.parent.mkdir(parents=True)
    with own.alone():
        # Nothing else says who calls the agent.
        assert own.service.parent.stat().st_mode & 0o777 == 0o700
        for path in (gone.registration, gone.service):
            bound(path).close()
        for path in (beside.registration, beside.service):
            serving.append(bound(path))
            serving[-1].listen()
        bound(kubelet / "plugins_registry/other.example.com-reg.sock").close()
        file = own.service.with_name("dra-file.sock")
        file.touch()
        assert sorted(own.remove_dead()) == sorted([gone.registration, gone.service, file])
    left = {path.name for path in kubelet.rglob("*") if path.is_socket()}
    assert left == {beside.registration.name, beside.service.name, "other.example.com-reg.sock"}


def test_opening_and_removing_exclude_each_other(kubelet: Path) -> None:
    """While one agent opens its sockets no other one removes any."""
    first, second = (Sockets.of(kubelet, uid) for uid in ("first", "second"))
    order: list[str] = []

    def remove() -> None:
        with second.alone():
            order.append("second")

    thread = threading.Thread(target=remove)
    with first.alone():
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert DRIVER in str(first.service)
