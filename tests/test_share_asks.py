# SPDX-License-Identifier: Apache-2.0
"""A container whose pod has joined a claim asks the node's agent, and waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cgpu import share_asks
from cgpu.request import by_shares
from cgpu.request.pod import Pod
from tests.request.shares import OTHER_POD, SHARE, put

pytestmark = pytest.mark.root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "shares")
    return tmp_path / "shares"


@contextmanager
def agent(folder: Path, does: Callable[[], object]) -> Iterator[list[tuple[str, str]]]:
    list(share_asks.asked(str(folder)))
    asked: list[tuple[str, str]] = []
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            for share, pod in share_asks.asked(str(folder)):
                asked.append((share, pod))
                does()
                share_asks.answer(share, pod, str(folder))
            time.sleep(0.01)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        ended.set()
        thread.join()


def test_a_pod_that_has_joined(folder: Path) -> None:
    """The container has its share as soon as the agent has written it."""
    pod = Pod(by_kubernetes=True, sandbox=False, uid=OTHER_POD, container="main")
    with agent(folder, lambda: put(folder, pods={OTHER_POD: ["main"]})) as asked:
        found = by_shares._share(SHARE, pod, str(folder))
    assert (found.pods, asked) == ({OTHER_POD: ("main",)}, [(SHARE, OTHER_POD)])


def test_the_folder_of_questions(tmp_path: Path) -> None:
    """The folder is root's alone, and is not made where the engine has not made the one around it."""
    assert list(share_asks.asked(str(tmp_path / "cgpu" / "shares"))) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "cgpu").mkdir()
    assert list(share_asks.asked(str(tmp_path / "cgpu" / "shares"))) == []
    made = [tmp_path / "cgpu" / "shares", tmp_path / "cgpu" / "shares" / share_asks.FOLDER]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o700]


def test_an_agent_that_does_not_answer(folder: Path) -> None:
    """A question waits for a bounded time, and is taken back."""
    assert not share_asks.ask(SHARE, OTHER_POD, str(folder), 5)  # no agent has been here
    list(share_asks.asked(str(folder)))
    began = time.monotonic()
    assert not share_asks.ask(SHARE, OTHER_POD, str(folder), 0.2)
    assert 0.2 <= time.monotonic() - began < 4
    assert list(share_asks.asked(str(folder))) == []


@pytest.mark.parametrize(("share", "pod"), [(SHARE, "../../x"), ("x", OTHER_POD), (SHARE, "")])
def test_names_that_are_none(folder: Path, share: str, pod: str) -> None:
    """A name that is no UUID names no file, in either direction."""
    list(share_asks.asked(str(folder)))
    assert not share_asks.ask(share, pod, str(folder))
    (folder / share_asks.FOLDER / "junk").touch()
    assert list(share_asks.asked(str(folder))) == []
