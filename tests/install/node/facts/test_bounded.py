# SPDX-License-Identifier: Apache-2.0
"""Questions in a child process."""

from __future__ import annotations

import os
import time
from typing import NoReturn

import psutil
import pytest

from cgpu.errors import CgpuError
from cgpu.install.node.facts import bounded


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


def test_answer() -> None:
    """The answer comes back whole, larger than a pipe."""
    assert bounded.ask(lambda: ["x" * (1 << 20), {"a": None}], "it", 30) == ["x" * (1 << 20), {"a": None}]


def test_hangs() -> None:
    """The reader ends the process of a question that does not answer."""
    before, start = children(), time.monotonic()
    with pytest.raises(bounded.NoAnswerError, match=r"the driver: no answer within 0.2 s"):
        bounded.ask(lambda: time.sleep(60), "the driver", 0.2)
    assert time.monotonic() - start < 10
    assert children() == before


def test_foreign_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes, and the child is reaped, where /proc shows the processes of another pid namespace."""

    def unknown(pid: int) -> NoReturn:
        raise psutil.NoSuchProcess(pid)

    forked, fork = [], os.fork

    def recorded() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", recorded)
    monkeypatch.setattr(psutil, "Process", unknown)
    assert bounded.ask(lambda: 1, "it", 30) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(forked[0], os.WNOHANG)


def test_refusal_and_fault() -> None:
    """A refusal comes with its line, any other fault with its name; an end without a word is told."""

    def refuse() -> NoReturn:
        raise CgpuError("no such thing")

    with pytest.raises(CgpuError, match=r"^no such thing$"):
        bounded.ask(refuse, "it", 30)
    with pytest.raises(CgpuError, match="ZeroDivisionError"):
        bounded.ask(lambda: 1 // 0, "it", 30)
    with pytest.raises(bounded.NoAnswerError, match="it: ended without an answer"):
        bounded.ask(lambda: os._exit(1), "it", 30)


def test_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without an end is not taken."""
    monkeypatch.setattr(bounded, "MAX_ANSWER", 1 << 16)
    with pytest.raises(bounded.NoAnswerError):
        bounded.ask(lambda: "x" * (1 << 20), "it", 30)
