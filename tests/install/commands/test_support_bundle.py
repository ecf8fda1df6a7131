# SPDX-License-Identifier: Apache-2.0
"""The support bundle: what is left out, and how it is written."""

from __future__ import annotations

import io
import json
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.events.append import append
from cgpu.install.checks.finding import Finding
from cgpu.install.commands import support_bundle
from cgpu.install.commands.support_bundle import (
    _quiet,
    events,
    kernel_lines,
    pack,
    redact_line,
    redact_lines,
)

SECRET = "hunter2-S3CRET"  # noqa: S105, made up


@pytest.mark.parametrize(
    "line",
    [
        f"password={SECRET}",
        f"db_password: {SECRET}",
        f'"apiKey": "{SECRET} {SECRET}"',
        f"Authorization: Bearer {SECRET}",
        f"sent bearer {SECRET}",
        f"http://user:{SECRET}@proxy:3128/",
        f"http://user:a/b@{SECRET}@proxy:3128/",
        f"http://user:{SECRET}{'x' * 3000}@proxy:3128/",
        f'password="{"x" * 900} {SECRET} {"x" * 900}"',
        f"HTTP_PROXY={SECRET}",
        f'DB_PASS="{SECRET} {SECRET}"',
        f"ALIYUN_COM_GPU_MEM_CONTAINER={SECRET}: expected a whole number",
        f"x --token={SECRET}",
        f"{'x' * 3000} {SECRET}",
    ],
)
def test_secrets_in_lines(line: str) -> None:
    """The bundle leaves out named secrets, values of variables, and credentials in a URL."""
    assert SECRET not in redact_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "cgpud: container 4a4a: registered pid=17 gpu=0 memsize=1073741824 weight=1 highprio=0",
        "GPU 0 (GPU-5a1f): drift 805306368 bytes: 2147483648 free of 15842934784",
        "[   12.5] NVRM: Xid (PCI:0000:01:00): 79, pid=17, GPU has fallen off the bus.",
        "Max open files            65536                65536                files",
    ],
)
def test_ordinary_lines_stay(line: str) -> None:
    """Lines that support reads a log for stay as they are."""
    assert redact_line(line) == line


@given(st.text(max_size=200), st.sampled_from(["password=", "TOKEN=", "secret: ", "api_key="]))
def test_any_line(before: str, name: str) -> None:
    """The bundle leaves out a named secret whatever stands before it, and a line stays one line."""
    out = redact_line(f"{before} {name}{SECRET}")
    assert SECRET not in out
    assert "\n" not in out
    assert out.isascii()


@pytest.mark.parametrize("line", ["a" * 2000, "token" * 400, "http://" * 300, "password=" * 200])
def test_long_lines_take_no_time(line: str) -> None:
    """A line that is made to be long is gone through in a moment."""
    start = time.process_time()
    redact_lines(f"{line}\n" * 20, 20)
    assert time.process_time() - start < 2


def test_events(tmp_path: Path) -> None:
    """The event log is there with its older file, without what a container's environment says."""
    path = tmp_path / "events.log"
    refused = [
        f"OPENCGPU_MEM=6 {SECRET}: expected a size",
        f"{SECRET}: of no known form",
        "container web: GPU 0 has 1 MiB of 15109 MiB left, and 2 MiB were requested",
        "the engine at /run/cgpu_km is not running, so containers with a GPU slice cannot start; start it",
    ]
    append("started", {"id": "older", "gpu": 0, "memsize": 5, "password": SECRET}, f"{path}.1")
    append("named", {"id": "web", "pod": "web-0"}, str(path))
    for message in refused:
        append("refused", {"id": "web", "gpu": 0, "message": message}, str(path))
    with path.open("a") as log:
        log.write(f"{SECRET}\n")
    lines = [json.loads(line) for line in events(str(path)).splitlines()]
    assert [(one["event"], one["id"]) for one in lines] == [
        ("started", "older"),
        ("named", "web"),
        *[("refused", "web")] * 4,
    ]
    assert lines[0]["memsize"] == 5
    assert [one["message"] for one in lines[2:]] == ["OPENCGPU_MEM: [left out]", "[left out]", *refused[2:]]
    assert redact_lines(json.dumps(lines[2]), 1) == f"{json.dumps(lines[2])}\n"


def test_last_events(tmp_path: Path) -> None:
    """The bundle takes the last of many events, and none where no log can be read."""
    path = tmp_path / "events.log"
    assert events(str(path)) == ""
    for number in range(support_bundle.LAST + 10):
        append("started", {"id": str(number)}, str(path))
    lines = events(str(path)).splitlines()
    assert len(lines) == support_bundle.LAST
    assert json.loads(lines[-1])["id"] == str(support_bundle.LAST + 9)
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")
    assert events(str(path)) == ""


def test_kernel_lines() -> None:
    """The bundle takes only lines of the module and the driver from the kernel's log."""
    said = (
        "[1.0] cgpu_km: loaded\n[2.0] NVRM: Xid\n[3.0] audit: cmd=mysql -px\n[4.0] Command line: nvidia.x=1\n"
    )
    assert [line[6:] for line in kernel_lines(said)] == ["cgpu_km: loaded", "NVRM: Xid"]


def test_values_of_a_broken_configuration() -> None:
    """The finding on a file with a mistake shows a value: not in the bundle."""
    quiet = _quiet(Finding("configuration", "problem", f"password: {SECRET}", "fix"))
    assert SECRET not in quiet.text
    assert quiet.fix == "fix"


def test_archive(tmp_path: Path) -> None:
    """The archive is for its owner alone, and holds each file with its content."""
    path = tmp_path / "b.tar.gz"
    assert pack(path, [("a.json", b"{}\n"), ("log/x.txt", b"line\n")], 0.0) == ["a.json", "log/x.txt"]
    assert path.stat().st_mode & 0o7777 == 0o600
    with tarfile.open(path) as archive:
        assert [(one.name, one.mode, one.uid) for one in archive] == [
            ("cgpu-support/a.json", 0o600, 0),
            ("cgpu-support/log/x.txt", 0o600, 0),
        ]
        member = archive.extractfile("cgpu-support/log/x.txt")
        assert member is not None
        assert member.read() == b"line\n"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A file, or a link that somebody has put there, is refused and stays."""
    there, target = tmp_path / "there", tmp_path / "target"
    there.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    for path in (there, link):
        with pytest.raises(CgpuError, match="is there already; name another file"):
            pack(path, [], 0.0)
    assert there.read_text() == "mine"
    assert not target.exists()


def test_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle leaves out a file that would make it too large, and packs those after it."""
    monkeypatch.setattr(support_bundle, "MAX_TOTAL", 10)
    assert pack(tmp_path / "b", [("a", b"12345"), ("b", b"123456"), ("c", b"12345")], 0.0) == ["a", "c"]


def test_a_failure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that cannot be written whole is taken away."""

    def full(stream: io.BufferedWriter, *_: object) -> list[str]:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(support_bundle, "_write", full)
    with pytest.raises(CgpuError, match="No space left"):
        pack(tmp_path / "b", [], 0.0)
    assert list(tmp_path.iterdir()) == []
