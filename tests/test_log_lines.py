# SPDX-License-Identifier: Apache-2.0
"""Log lines with fields, as JSON and in the journal."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import log_lines, paths
from cgpu.config import effective
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.exporter.main import failed as exporter_failed
from cgpu.exporter.main import main as exporter
from cgpu.hook import log as hook_log
from cgpu.kmod.daemon import log as daemon_log
from cgpu.kubernetes.admission.main import main as admission
from cgpu.kubernetes.node import main as agent
from tests.client.support import CONTAINER
from tests.hook.conftest import compiled_hook, engineless, tree
from tests.hook.support import FakeTree
from tests.hook.test_log import run as run_hook

__all__ = ["compiled_hook", "engineless", "tree"]  # fixtures
ID = "4a4b4c4d4e4f" + "0" * 52


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    yield
    logging.basicConfig(handlers=[], force=True)


@pytest.fixture
def daemon(tmp_path: Path) -> Path:
    path = tmp_path / "cgpud.log"
    daemon_log.start(path, foreground=False)
    return path


def lines(path: Path) -> list[dict[str, object]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in one.items() if key != "time"} for one in found]


def of_cgpud(message: str, level: str = "info", **fields: object) -> dict[str, object]:
    return {"component": "cgpud", "level": level, "message": message, **fields}


def test_daemon_as_json(daemon: Path) -> None:
    """Each line is text at first, then an object, with the container or the GPU that its words name."""
    log = logging.getLogger("cgpud")
    log.info("reloaded")
    assert daemon.read_text().endswith(f" cgpud[{os.getpid()}] INFO reloaded\n")
    os.truncate(daemon, 0)
    daemon_log.set_form("json")
    log.info("container %s: reclaimed, its processes are gone", ID)
    log.error("GPU 1 (GPU-6a25f4b0-0fd5): the driver has lost it")
    log.warning("no GPU 0 and no GPU 1")
    log.info("container of its own\nand a line")
    lost = "GPU 1 (GPU-6a25f4b0-0fd5): the driver has lost it"
    assert lines(daemon) == [
        of_cgpud(f"container {ID}: reclaimed, its processes are gone", id=ID),
        of_cgpud(lost, "error", gpu=1, uuid="GPU-6a25f4b0-0fd5"),
        of_cgpud("no GPU 0 and no GPU 1", "warning"),
        of_cgpud("container of its own\nand a line"),
    ]


def test_events_of_the_daemon(daemon: Path) -> None:
    """With fields an event is a line of the log too; as text it is in the event log alone."""
    daemon_log.event("started", {"id": ID, "gpu": 0, "memsize": 5})
    assert daemon.read_text() == ""
    daemon_log.set_form("json")
    daemon_log.event("started", {"id": ID, "gpu": 0, "memsize": 5})
    daemon_log.event("ready", {"message": "cgpud 0.1.0, 1 Tesla T4"})
    started = f"GPU 0: slice of container {ID} started"
    assert lines(daemon) == [
        of_cgpud(started, id=ID, gpu=0, memsize=5, event="started"),
        of_cgpud("cgpud 0.1.0, 1 Tesla T4", event="ready"),
    ]


def test_full_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is two files of bounded size, and loses no line but with the older file."""
    monkeypatch.setattr(daemon_log, "BYTES", 400)
    daemon = tmp_path / "cgpud.log"
    daemon_log.start(daemon, foreground=False)
    daemon_log.set_form("json")
    log = logging.getLogger("cgpud")
    for number in range(20):
        log.info("line %d", number)
    older = daemon.with_name("cgpud.log.1")
    assert sorted(daemon.parent.glob("cgpud.log*")) == [daemon, older]
    assert older.stat().st_size <= 400
    assert daemon.stat().st_size <= 400
    kept = [one["message"] for one in [*lines(older), *lines(daemon)]]
    assert kept == [f"line {number}" for number in range(20 - len(kept), 20)]
    assert len(kept) > 2


def test_pipe_in_the_files_place(tmp_path: Path) -> None:
    """A log that leads to a pipe has its lines, and is never renamed."""
    path = tmp_path / "cgpud.log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        daemon_log.start(path, foreground=False)
        logging.getLogger("cgpud").info("first")
        logging.getLogger("cgpud").info("second")
        told = os.read(reader, 4096).decode().splitlines()
        assert [line.rpartition(" ")[2] for line in told] == ["first", "second"]
    finally:
        os.close(reader)


class Gone(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_journal_and_standard_error_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that goes nowhere does not end cgpud, in any form."""
    monkeypatch.setattr("sys.stderr", Gone())
    monkeypatch.setattr(paths, "JOURNAL", str(tmp_path / "none"))
    daemon_log.start(tmp_path / "log", foreground=True)
    logging.getLogger("cgpud").info("as text")
    daemon_log.set_form("journal")
    logging.getLogger("cgpud").info("to the journal")


def test_without_a_journal(
    tree: FakeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that the journal does not take is text: the hook's in syslog, others' on standard error."""
    found: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda _, text: found.append(text))
    monkeypatch.setattr(paths, "JOURNAL", str(tmp_path / "none"))
    tree.settings["log_format"] = "journal"
    assert run_hook(tree, "refused", f"create id={CONTAINER} share=x", "no room") == 1
    assert found == [f"container={CONTAINER} no room"]
    monkeypatch.setattr(effective, "load", lambda: Effective(log_format="journal"))
    exporter_failed("two\nlines")
    daemon_log.start(tmp_path / "log", foreground=True)
    daemon_log.set_form("journal")
    logging.getLogger("cgpud").info("still here")
    assert capsys.readouterr().err == "cgpu exporter: two\\nlines\ncgpud: still here\n"


def test_hook_as_json(tree: FakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook's lines are objects with the container."""
    found: list[tuple[int, str]] = []
    monkeypatch.setattr("syslog.syslog", lambda level, text: found.append((level, text)))
    tree.settings["log_format"] = "json"
    assert run_hook(tree, "refused", f"create id={CONTAINER} share=x", "no room") == 1
    ((level, text),) = found
    assert level == hook_log.ERROR
    known = {"level": "error", "component": "cgpu-hook", "id": CONTAINER, "message": "no room"}
    assert json.loads(text) | known == json.loads(text)


def test_agent_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent of a Kubernetes node writes objects where the node's configuration says so, else text."""
    monkeypatch.setattr(effective, "load", lambda: Effective(log_format="json"))
    agent.say("shop/claim: prepared, 1 shares")
    line = json.loads(capsys.readouterr().err)
    assert (line["component"], line["message"]) == ("cgpu-kubernetes-node", "shop/claim: prepared, 1 shares")
    agent.warn("the engine is not running")
    levels = [line["level"], json.loads(capsys.readouterr().err)["level"]]
    assert levels == ["info", "warning"]

    def broken() -> Effective:
        raise CgpuError("broken")

    monkeypatch.setattr(effective, "load", broken)
    agent.say("two\nlines")
    assert capsys.readouterr().err == "two\\nlines\n"


def test_exporter_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The exporter's lines are objects, also the one that says why it ends."""
    monkeypatch.setattr(effective, "load", lambda: Effective(log_format="json"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert exporter(["--listen", f"127.0.0.1:{port}"]) == 1
    line = json.loads(capsys.readouterr().err)
    assert (line["component"], line["level"]) == ("cgpu-exporter", "error")
    assert line["message"].startswith(f"127.0.0.1:{port}: cannot listen (Address already in use)")


@pytest.mark.parametrize("form", ["text", "json"])
def test_webhook(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The webhook's lines are objects where its option says so."""
    options = ["--certificate", str(tmp_path), "--kubeconfig", str(tmp_path / "none")]
    assert admission(["--log-format", form, *options]) == 1
    (failed,) = capsys.readouterr().err.splitlines()
    if form == "text":
        assert failed.startswith("cgpu kubernetes admission: ")
        return
    line = json.loads(failed)
    assert (line["component"], line["level"]) == ("cgpu-kubernetes-admission", "error")


@given(st.text(), st.text())
def test_hostile_values(message: str, name: str) -> None:
    """A line is one object of printable ASCII, with any message and name."""
    line = log_lines.as_json(6, "cgpud", message, {"id": name})
    assert line.isascii()
    assert line.isprintable()
    document = json.loads(line)
    assert (document["message"], document["id"], document["level"]) == (message, name, "info")
