# SPDX-License-Identifier: Apache-2.0
"""Lines of the hook in the system log."""

from __future__ import annotations

import os

import pytest

from cgpu.hook import log
from cgpu.hook.main import main
from tests.client.support import CONTAINER, MIB, down
from tests.hook.support import FakeTree
from tests.refusal import has_parts
from tests.request.support import ENV, spec

Lines = list[tuple[int, str]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    found: Lines = []
    monkeypatch.setattr("syslog.syslog", lambda level, text: found.append((level, text)))
    return found


def run(tree: FakeTree, *arguments: str, state: str | None = None) -> int:
    path = tree.base / "state"
    path.write_text(state or tree.state())
    tree.configure()
    fd = os.open(path, os.O_RDONLY)
    try:
        return main(arguments, str(tree.base / "config.json"), fd)
    finally:
        os.close(fd)


def test_no_environment_value(tree: FakeTree, lines: Lines) -> None:
    """A refusal is logged without the value that was refused, and an id cannot add lines."""
    tree.bundle(spec({**ENV, "ALIYUN_COM_GPU_MEM_DEV": "secret"}))
    assert run(tree, "prestart") == 1
    assert lines == [(log.ERROR, f"container={CONTAINER} refused, the runtime shows why")]
    tree.bundle(spec({**ENV, "NVIDIA_VISIBLE_DEVICES": "0"}))
    assert run(tree, "prestart", state=tree.state(id="a\nb" + "x" * 500)) == 1
    (_, line) = lines[1]
    assert has_parts(line, "container=a\\nbxxx")


@pytest.mark.parametrize("form", ["text", "future"])
def test_refused_line(tree: FakeTree, lines: Lines, capfd: pytest.CaptureFixture[str], form: str) -> None:
    """What the hook in C has said is logged, under any configuration, and not said again."""
    tree.settings["log_format"] = form
    why = f"container {CONTAINER}: no room"
    assert run(tree, "refused", f"create id={CONTAINER} gpu=0:{MIB}:2:1", why) == 1
    assert lines == [(log.ERROR, f"container={CONTAINER} {why}")]
    assert capfd.readouterr().err == ""


def test_engine_down(engineless: FakeTree, lines: Lines) -> None:
    """A start and a removal without an engine are logged."""
    engineless.bundle(spec({**ENV, "NVIDIA_VISIBLE_DEVICES": "0"}))
    assert run(engineless, "prestart") == 1
    assert run(engineless, "poststop") == 0
    why = down(engineless.path)
    assert lines == [
        (log.ERROR, f"container={CONTAINER} refused, the runtime shows why"),
        (log.WARNING, f"container={CONTAINER} not removed now, the engine will when it is back: {why}"),
    ]


def test_refused_by_the_engine(tree: FakeTree, lines: Lines) -> None:
    """Why the engine refuses has no value of the environment, and is logged."""
    tree.bundle(spec({**ENV, "NVIDIA_VISIBLE_DEVICES": "0"}))
    tree.inst_ctl.unlink()
    tree.inst_ctl.mkdir()
    assert run(tree, "prestart") == 1
    ((level, line),) = lines
    assert level == log.ERROR
    assert line.endswith(f"container {CONTAINER}: the engine at {tree.path} refused: Is a directory")


def test_unexpected(
    tree: FakeTree, monkeypatch: pytest.MonkeyPatch, lines: Lines, capfd: pytest.CaptureFixture[str]
) -> None:
    """A fault of the hook itself stops the container with one line, and never a removal."""

    def fail(path: str) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("cgpu.config.effective.load", fail)
    assert run(tree, "prestart") == 1
    assert capfd.readouterr().err == "opencgpu: unexpected RuntimeError: two\\nlines\n"
    assert run(tree, "poststop") == 0
    assert [text for _, text in lines] == [
        f"container={CONTAINER} unexpected error",
        f"container={CONTAINER} not removed: RuntimeError",
    ]
