# SPDX-License-Identifier: Apache-2.0
"""Reading of the logs: with any content no crash, and nothing that a terminal would act on."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.events import sources
from cgpu.events.append import append
from cgpu.events.event import Event, of_line, of_words
from cgpu.events.render import Table, as_json
from cgpu.events.sources import KernelLog, LogFile, of_record, of_records
from cgpu.events.story import Story

BOOTED = datetime(2026, 11, 26, tzinfo=UTC)
TIME = "2026-11-26T22:02:15.509766Z"
STARTED = {"time": TIME, "event": "started", "gpu": 1, "uuid": "GPU-1", "id": "web", "memsize": 5}
WORDS = "event=ended gpu=1 uuid=GPU-1 id=web memsize=5 peak=3 refused_limit=2"
# Lines that are nearly right, so that what is behind the first look is reached too.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NEARLY = st.dictionaries(st.sampled_from([*STARTED, "message", "name", "pod", "namespace"]), VALUES).map(
    lambda changed: json.dumps({**STARTED, **changed}).encode()
)


def assert_harmless(events: list[Event]) -> None:
    """Print events in every way, and look for what a terminal would act on."""
    for event in Story(lambda _: {}).follow(events):
        shown = [as_json(event), Table(None).row(event), *Table(80).row(event).split("\n")]
        for line in shown:
            assert line.isascii()
            assert line.isprintable()
        assert all(len(line) <= 80 for line in shown[2:])
        assert "\n" not in Table(None).row(event)


@given(st.lists(st.binary() | NEARLY))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    """Any bytes in the file are events that can be shown, or nothing."""
    log = tmp_path_factory.mktemp("any") / "events.log"
    log.write_bytes(b"\n".join(lines))
    assert_harmless(LogFile(str(log)).poll())


@given(st.binary() | st.binary().map(lambda end: b"6,1,5,-;cgpu_km: event=" + end))
def test_any_record(record: bytes) -> None:
    """Any record of the kernel's log is an event that can be shown, or nothing."""
    event = of_record(record, BOOTED)
    assert_harmless([] if event is None else [event])


@pytest.mark.parametrize(
    "changed",
    [{"time": "now"}, {"time": "2026-11-26T22:02:15"}, {"time": 5}, {"event": "else"}, {"event": ["ended"]}],
)
def test_event(changed: dict[str, Any]) -> None:
    """A line of the log has the fields that it says; one without a time or a known event is none."""
    event = Event(datetime.fromisoformat(TIME), "started", 1, "GPU-1", "web", figures={"memsize": 5})
    assert of_line(json.dumps(STARTED).encode()) == event
    assert of_line(json.dumps({**STARTED, **changed}).encode()) is None


def test_behind_a_torn_line(tmp_path: Path) -> None:
    """A line that was cut off, as on a full disk, does not take the next one with it."""
    path = tmp_path / "events.log"
    append("started", {"id": "torn", "message": "x" * 50}, str(path))
    os.truncate(path, path.stat().st_size - 20)
    append("refused", {"id": '{"time": "', "message": '{"time": "now"}'}, str(path))
    events = LogFile(str(path)).poll()
    assert [(event.event, event.id, event.message) for event in events] == [
        ("refused", '{"time": "', '{"time": "now"}')
    ]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize("zone", ["UTC+12", "UTC-12"])
def test_time_that_no_zone_has(moment: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event at the end of all time is shown, or none."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    event = of_line(json.dumps({**STARTED, "time": moment}).encode())
    assert_harmless([] if event is None else [event])
    monkeypatch.undo()
    time.tzset()


def test_names_are_not_asked_for_ever() -> None:
    """For a slice without a name, as of `cgpu run`, engines are asked when it is new, and at its end."""
    now = datetime.now(UTC)
    asked: list[set[str]] = []

    def ask(wanted: set[str]) -> dict[str, str]:
        asked.append(wanted)
        return {}

    story = Story(ask)
    list(story.follow([Event(now - timedelta(hours=1), "started", 0, id="old")]))
    list(story.follow([]))
    assert asked == [{"old"}]
    list(story.follow([Event(now, "started", 0, id="new")]))
    list(story.follow([]))
    assert asked[1:] == [{"new"}, {"new"}]
    list(story.follow([Event(now, "ended", 0, id="old")]))
    assert asked[3:] == [{"old", "new"}]


def test_words_of_the_engine() -> None:
    """A line of the engine has words of which some are numbers."""
    event = of_words(BOOTED, WORDS)
    assert event is not None
    assert (event.event, event.gpu, event.id) == ("ended", 1, "web")
    assert event.figures == {"memsize": 5, "peak": 3, "refused_limit": 2}
    assert of_words(BOOTED, f"pid 5: {WORDS}") is None
    assert of_words(BOOTED, f"{WORDS} and more") is None


def test_kernel_log() -> None:
    """Lines of the module count, at the time at which they were logged; those that a process wrote do not."""
    records: Iterator[bytes | int] = iter(
        [
            f"6,340,5000000,-;cgpu_km: {WORDS}\n SUBSYSTEM=x\n".encode(),
            errno.EPIPE,
            f"12,341,6000000,-;cgpu_km: {WORDS}\n".encode(),  # facility 1: a process of a user
            b"6,342,7000000,-;cgpu_km: container web removed\n",
            errno.EAGAIN,
        ]
    )

    def read() -> bytes:
        record = next(records)
        if isinstance(record, int):
            raise OSError(record, os.strerror(record))
        return record

    events = list(of_records(read))
    assert [event.figures["peak"] for event in events] == [3]
    found = of_record(f"6,340,5000000,-;cgpu_km: {WORDS}".encode(), BOOTED)
    assert found is not None
    assert found.time == datetime(2026, 11, 26, 0, 0, 5, tzinfo=UTC)


def test_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later lines are read once, over a change of the file, and a half line when it is whole."""
    path = str(tmp_path / "events.log")
    log = LogFile(path)
    assert log.poll() == []
    append("started", {"id": "a"}, path)
    assert [event.id for event in log.poll()] == ["a"]
    with open(path, "ab") as half:
        half.write(b'{"time": "2026-11-26T22:02:15Z", "event": "ended", ')
        half.flush()
        assert log.poll() == []
        half.write(b'"id": "a"}\n')
    assert [event.event for event in log.poll()] == ["ended"]
    append("started", {"id": "b"}, path)
    os.rename(path, f"{path}.1")
    append("started", {"id": "c"}, path)
    assert [event.id for event in log.poll()] == ["b", "c"]
    assert log.poll() == []
    monkeypatch.setattr(sources, "MAX_READ", 10)
    assert log.poll() == []


def test_cannot_be_read(tmp_path: Path) -> None:
    """A path that is no file raises one line; a kernel's log that cannot be read has no events."""
    assert KernelLog(str(tmp_path / "none")).poll() == []
    (tmp_path / "events.log").symlink_to("elsewhere")
    with pytest.raises(CgpuError, match=r"events.log: cannot be read"):
        LogFile(str(tmp_path / "events.log")).poll()
