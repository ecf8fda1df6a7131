# SPDX-License-Identifier: Apache-2.0
"""`cgpu events` on a log that was written as the engine and the hook write it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.events import main as command
from cgpu.events.append import line_of
from cgpu.events.render import duration
from cgpu.events.times import moment
from cgpu.smi import names

ID = "4a4b4c4d4e4f" + "0" * 52
POD = "9" * 64
HOUR = 3_600_000_000_000
Fields = dict[str, str | int]
END: Fields = {"memsize": 6 << 30, "peak": 1 << 30, "weight": 1, "refused_limit": 3, "refused_call": 0}
UUIDS = {0: "GPU-aaaa1111", 1: "GPU-bbbb2222"}


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a log of the test's own, no kernel log, and an engine that knows one name."""
    path = tmp_path / "events.log"
    monkeypatch.setattr(paths, "EVENTS", str(path))
    monkeypatch.setattr(paths, "KERNEL_LOG", str(tmp_path / "none"))
    monkeypatch.setattr(names, "sources", lambda **_: [lambda: {ID: "web"}])
    now = time.time_ns()
    slice_of: Fields = {"gpu": 0, "uuid": UUIDS[0], "id": ID}
    of_pod: Fields = {"gpu": 1, "uuid": UUIDS[1], "id": POD}
    start: Fields = {"memsize": 6 << 30, "weight": 2, "highprio": 1}
    pod: Fields = {"pod": "web-0", "namespace": "shop", "container": "main"}
    refusal: Fields = {"gpu": 0, "id": "big", "message": "container big: GPU 0 has 2 MiB left \x1b[2J"}
    lines = [
        line_of("ready", {"message": "cgpud 0.1.0, 2 Tesla T4"}, now - 3 * HOUR),
        line_of("started", {**slice_of, **start}, now - 2 * HOUR),
        line_of("named", {"id": POD, **pod}, now - HOUR),
        line_of("started", {**of_pod, **start, "highprio": 0}, now - HOUR),
        line_of("refused", refusal, now - HOUR // 2),
        line_of("ended", {**of_pod, **END}, now - HOUR // 2 + 1),
        line_of("lost", {"gpu": 1, "uuid": UUIDS[1]}, now - HOUR // 4),
    ]
    path.write_bytes(b"".join(lines))
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert command.main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Each event is a line, with names of containers and pods, and a slice's end."""
    head, *lines = printed(capsys)
    assert head.split() == ["TIME", "EVENT", "GPU", "CONTAINER", "DETAILS"]
    assert [line[16:].split(maxsplit=3) for line in lines] == [
        ["ready", "-", "-", "cgpud 0.1.0, 2 Tesla T4"],
        ["started", "0", "web", "6144 MiB, weight 2, high priority"],
        ["started", "1", "shop/web-0/main", "6144 MiB, weight 2"],
        ["refused", "0", "big", "GPU 0 has 2 MiB left \\x1b[2J"],
        ["ended", "1", "shop/web-0/main", "peak 1024 MiB of 6144 MiB, lived 30m0s, refused 3 (limit)"],
        ["lost", "1", "-", UUIDS[1]],
    ]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON each event has the fields that it has, and times of RFC 3339."""
    documents = [json.loads(line) for line in printed(capsys, "--format", "json")]
    assert documents[0].keys() == {"time", "event", "message"}
    ended = documents[4]
    assert abs(ended["lived"] - HOUR // 2) <= 1000
    assert {key: ended[key] for key in ("pod", "namespace", "container", "peak", "refused_limit")} == {
        "pod": "web-0",
        "namespace": "shop",
        "container": "main",
        "peak": 1 << 30,
        "refused_limit": 3,
    }
    assert datetime.fromisoformat(ended["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("words", "events"),
    [
        (["--filter", "container=web"], ["started"]),
        (["--filter", "container=4a4b"], ["started"]),
        (["--filter", "container=shop/web-0/main"], ["started", "ended"]),
        (["--filter", "pod=web-0"], ["started", "ended"]),
        (["--filter", "pod=shop/web-0", "--filter", "event=ended"], ["ended"]),
        (["--filter", "pod=web"], []),
        (["--filter", "gpu=0"], ["started", "refused"]),
        (["--filter", "gpu=GPU-bbbb"], ["started", "ended", "lost"]),
        (["--filter", "gpu=0", "--filter", "gpu=1", "--filter", "event=started"], ["started", "started"]),
        (["--since", "90m"], ["started", "refused", "ended", "lost"]),
        (["--since", "90m", "--until", "20m"], ["started", "refused", "ended"]),
        (["--until", "2020-01-01"], []),
    ],
)
def test_chosen(capsys: pytest.CaptureFixture[str], words: list[str], events: list[str]) -> None:
    """Filters and times choose events; two values of one key widen, two keys narrow."""
    documents = [json.loads(line) for line in printed(capsys, "--format", "json", *words)]
    assert [document["event"] for document in documents] == events


def test_moments() -> None:
    """A moment is RFC 3339, a date, seconds since 1970, or how long ago; a time has its two largest units."""
    assert moment("2026-11-26T21:30:00Z") == datetime(2026, 11, 26, 21, 30, tzinfo=UTC)
    assert moment("2026-11-26T22:30:00+01:00") == datetime(2026, 11, 26, 21, 30, tzinfo=UTC)
    assert moment("1795728600") == datetime.fromtimestamp(1795728600, UTC)
    assert moment("2026-11-26") == datetime(2026, 11, 26).astimezone(UTC)
    ago = datetime.now(UTC) - moment("1d2h30m")
    assert abs(ago - timedelta(days=1, hours=2, minutes=30)) < timedelta(seconds=5)
    seconds = [0.7, 59.9, 60, 3725, 90061]
    assert [duration(int(one * 1e9)) for one in seconds] == ["0.7s", "59.9s", "1m0s", "1h2m", "1d1h"]


def test_none(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without events a line says so, and which command makes one."""
    log.unlink()
    assert command.main([]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cgpu events: there are none since the node was started; ")


def arguments(log: Path) -> list[str]:
    code = (
        "import sys; from cgpu import paths; from cgpu.smi import names; from cgpu.events.main import main; "
        f"paths.EVENTS = {str(log)!r}; paths.KERNEL_LOG = '/nowhere'; names.sources = lambda **_: []; "
        "sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-c", code]


def test_follow(log: Path) -> None:
    """With -f it goes on with what is written, and ends at --until."""
    until = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    call = [*arguments(log), "-f", "--since", "20m", "--until", until, "--format", "json"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "lost"
        with log.open("ab") as file:
            file.write(line_of("back", {"gpu": 1}, time.time_ns()))
        assert json.loads(process.stdout.readline())["event"] == "back"
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_terminal(log: Path) -> None:
    """On a terminal of 80 columns no line is longer, and longer text is wrapped or cut to its column."""
    long: Fields = {"gpu": 0, "id": "x" * 100, "message": "words " * 40}
    log.write_bytes(log.read_bytes() + line_of("refused", long, time.time_ns()))
    main, other = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80"}
    with subprocess.Popen(arguments(log), stdout=other, env=environment) as process:
        os.close(other)
        text = b""
        try:
            while chunk := os.read(main, 4096):
                text += chunk
        except OSError:
            pass  # the other end is closed
    os.close(main)
    lines = text.decode().replace("\r\n", "\n").splitlines()
    assert process.returncode == 0
    assert all(len(line) <= 80 for line in lines)
    assert "xxx... words" in "\n".join(lines)
    assert lines[-1].startswith(" " * 50 + "words")
