# SPDX-License-Identifier: Apache-2.0
"""Writes to the event log: whole lines of several writers, a bounded size, and no error."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.events import append as module
from cgpu.events.append import append, line_of
from cgpu.events.sources import LogFile


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run" / "events.log"


def test_line(log: Path) -> None:
    """An event is a line of JSON in a file for root alone, whose folder is made."""
    append("started", {"gpu": 0, "id": "web", "memsize": 1 << 50}, str(log))
    document = json.loads(log.read_text())
    assert list(document) == ["time", "event", "gpu", "id", "memsize"]
    assert document["memsize"] == 1 << 50
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700
    assert b'"time": "2026-11-26T22:02:15.009766Z"' in line_of("ready", {}, 1795730535_009766_123)


@given(st.text(), st.text())
def test_hostile_names(name: str, message: str) -> None:
    """No name or message adds a line or a control character, or changes another field."""
    line = line_of("refused", {"id": name, "message": message, "gpu": 1}, 0)
    assert line.endswith(b"\n")
    assert all(0x20 <= byte < 0x7F for byte in line[:-1])
    document = json.loads(line)
    assert list(document) == ["time", "event", "id", "message", "gpu"]
    assert document["event"] == "refused"
    assert document["id"] == name[: module.MAX_TEXT]


def test_bounded(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two files of a bounded size: the last events are there, with none missing in between."""
    monkeypatch.setattr(module, "MAX_BYTES", 2000)
    for number in range(100):
        append("started", {"gpu": 0, "id": f"c{number}"}, str(log))
    assert sorted(path.name for path in log.parent.iterdir()) == ["events.log", "events.log.1"]
    assert all(path.stat().st_size <= 2000 for path in log.parent.iterdir())
    ids = [event.id for event in LogFile(str(log)).poll()]
    assert len(ids) > 20
    assert ids == [f"c{number}" for number in range(100 - len(ids), 100)]


def write_many(log: str, writer: int, count: int) -> None:
    # Fewer than all lines, so the file changes once. The room beyond takes what comes meanwhile, all of it.
    module.MAX_BYTES = 250_000
    module.ROOM_PARTS = 1
    for number in range(count):
        append("started", {"gpu": writer, "id": f"{writer}-{number}", "message": "x" * 200}, log)


def test_several_writers(log: Path) -> None:
    """Lines of several processes stay whole, over a change of the file, and none is missing."""
    log.parent.mkdir()
    writers = [multiprocessing.Process(target=write_many, args=(str(log), n, 500)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    lines = b"".join((log.parent / name).read_bytes() for name in ("events.log.1", "events.log")).splitlines()
    documents = [json.loads(line) for line in lines]
    for number in range(3):
        mine = [one["id"] for one in documents if one["gpu"] == number]
        assert mine == [f"{number}-{line}" for line in range(500)]


def test_a_full_file_that_another_has_renamed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that finds the file renamed, or another at it, does not rename the next over the former."""
    monkeypatch.setattr(module, "MAX_BYTES", 200)
    append("started", {"id": "first"}, str(log))
    fd = os.open(log, os.O_WRONLY)
    os.rename(log, f"{log}.1")
    append("started", {"id": "second"}, str(log))
    module._rotate(fd, str(log))
    os.close(fd)
    assert [event.id for event in LogFile(str(log)).poll()] == ["first", "second"]


def test_a_file_that_another_is_about_to_make(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that finds a full file renamed, and the next one not made yet, makes it."""
    monkeypatch.setattr(module, "MAX_BYTES", 200)
    append("started", {"id": "first", "message": "x" * 100}, str(log))
    flock = fcntl.flock

    def renamed(fd: int, operation: int) -> None:
        os.rename(log, f"{log}.1")
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", renamed)
    append("started", {"id": "second"}, str(log))
    assert [event.id for event in LogFile(str(log)).poll()] == ["first", "second"]


def test_a_file_that_is_gone_when_it_is_written(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that was written to a file which two rotations have removed is written again."""
    append("started", {"id": "first"}, str(log))
    write = os.write

    def late(fd: int, line: bytes) -> int:
        monkeypatch.undo()
        for _ in range(2):
            os.rename(log, f"{log}.1")
            log.touch()
        return write(fd, line)

    monkeypatch.setattr(os, "write", late)
    append("started", {"id": "second"}, str(log))
    assert [event.id for event in LogFile(str(log)).poll()] == ["second"]


def test_while_another_renames_a_full_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is interrupted with the lock loses no line of others, who rename the file in the end.

    So does a container's root who sees the file, and keeps its lock for good.
    """
    monkeypatch.setattr(module, "MAX_BYTES", 8000)
    append("started", {"id": "first", "message": "x" * 1000}, str(log))
    while log.stat().st_size < 8000 - 150:
        append("started", {"id": "more"}, str(log))
    holder = os.open(log, os.O_WRONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    for number in range(30):
        append("started", {"id": f"late{number}"}, str(log))
    os.close(holder)
    late = [event.id for event in LogFile(str(log)).poll() if event.id.startswith("late")]
    assert late == [f"late{number}" for number in range(30)]
    assert all(path.stat().st_size < 8000 + 1000 + 150 for path in log.parent.iterdir())


def test_no_descriptor_is_closed_twice(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a next file a descriptor is closed once: its number may be another's by then."""
    monkeypatch.setattr(module, "MAX_BYTES", 200)
    append("started", {"id": "first", "message": "x" * 100}, str(log))
    opened: list[int] = []
    closed: list[int] = []
    really_open, really_close = os.open, os.close

    def open_once(path: str, flags: int, mode: int = 0o777) -> int:
        if opened:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        opened.append(really_open(path, flags, mode))
        return opened[0]

    def close(fd: int) -> None:
        closed.append(fd)
        really_close(fd)

    monkeypatch.setattr(os, "open", open_once)
    monkeypatch.setattr(os, "close", close)
    append("started", {"id": "second"}, str(log))
    monkeypatch.undo()
    assert closed == opened


@pytest.mark.parametrize("place", ["folder", "link", "pipe", "no folder", "full"])
def test_what_stands_in_the_way(log: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that cannot be written is dropped without an error."""
    elsewhere = log.parent.parent / "elsewhere"
    if place == "no folder":
        log.parent.write_text("a file")
    else:
        log.parent.mkdir()
    if place == "folder":
        log.mkdir()
    elif place == "link":
        log.symlink_to(elsewhere)
    elif place == "pipe":
        os.mkfifo(log)
    elif place == "full":
        # The file cannot be renamed, and does not grow for ever either.
        monkeypatch.setattr(module, "MAX_BYTES", 300)
        (log.parent / "events.log.1").mkdir()
    for number in range(50):
        append("started", {"gpu": 0, "id": f"c{number}"}, str(log))
    assert not elsewhere.exists()
    if place == "full":
        assert log.stat().st_size < 500
