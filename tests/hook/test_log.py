# SPDX-License-Identifier: Apache-2.0
"""Lines of the hook in the system log."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
    config = tree.base / "effective.json"
    config.write_text(json.dumps({"tree": str(tree.path)}))
    fd = os.open(path, os.O_RDONLY)
    try:
        return main(arguments, str(config), fd)
    finally:
        os.close(fd)


def test_no_environment_value(tree: FakeTree, lines: Lines) -> None:
    """A refusal is logged without the value that was refused, and an id cannot add lines."""
    tree.bundle(spec({**ENV, "ALIYUN_COM_GPU_MEM_DEV": "secret"}))
    assert run(tree, "prestart") == 1
    assert lines == [(log.ERROR, f"container={CONTAINER} refused, the runtime shows why")]
    assert run(tree, "prestart", "--grant", "0:1:1:0", state=tree.state(id="a\nb" + "x" * 500)) == 1
    (_, line) = lines[1]
    assert has_parts(line, "container=a\\nbxxx")


def test_engine_down(tmp_path: Path, lines: Lines) -> None:
    """A start and a removal without an engine are logged."""
    tree = FakeTree(tmp_path)
    assert run(tree, "prestart", "--grant", "1:1048576:2:1") == 1
    assert run(tree, "poststop") == 0
    why = down(tree.path)
    assert lines == [
        (log.ERROR, f"container={CONTAINER} {why}"),
        (log.WARNING, f"container={CONTAINER} not removed now, the engine will when it is back: {why}"),
    ]


def test_rollback(tree: FakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure after the registration removes it again."""

    def fail(*_: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(log, "event", fail)
    with pytest.raises(OSError, match="no space"):
        run(tree, "prestart", "--grant", f"0:{MIB}:1:0")
    assert tree.inst_ctl.read_text().startswith(f"destroy id={CONTAINER}")


def test_unexpected(
    tree: FakeTree, monkeypatch: pytest.MonkeyPatch, lines: Lines, capfd: pytest.CaptureFixture[str]
) -> None:
    """A fault of the hook itself stops the container with one line, and never a removal."""

    def fail(path: str) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("cgpu.config.effective.load", fail)
    assert run(tree, "prestart", "--grant", "0:1:1:0") == 1
    assert capfd.readouterr().err == "opencgpu: unexpected RuntimeError: two\\nlines\n"
    assert run(tree, "poststop") == 0
    assert [text for _, text in lines] == [
        f"container={CONTAINER} unexpected error",
        f"container={CONTAINER} not removed: RuntimeError",
    ]
