# SPDX-License-Identifier: Apache-2.0
"""A gate keeps an object while threads use it."""

from __future__ import annotations

import contextlib
import threading

from cgpu.kmod.daemon.gate import Gate
from tests.integration.commands import eventually


def is_closed(gate: Gate) -> bool:
    try:
        with gate.pass_through():
            return False
    except ProcessLookupError:
        return True


def test_close_waits_for_those_inside() -> None:
    """A gate closes when the last thread has left, also by an exception, and lets no other in."""
    gate, entered, leave = Gate(), threading.Event(), threading.Event()

    def use() -> None:
        with contextlib.suppress(KeyError), gate.pass_through():
            entered.set()
            leave.wait(20)
            raise KeyError

    threads = [threading.Thread(target=use), threading.Thread(target=gate.close)]
    threads[0].start()
    entered.wait(20)
    threads[1].start()
    eventually(lambda: is_closed(gate), "it lets others in")
    threads[1].join(0.1)
    assert threads[1].is_alive()
    leave.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
