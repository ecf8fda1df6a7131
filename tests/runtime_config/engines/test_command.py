# SPDX-License-Identifier: Apache-2.0
"""The command cgpu-runtime-config."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit
from cgpu.runtime_config import files
from cgpu.runtime_config.engines.docker import Docker
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.main import main
from cgpu.runtime_config.oci_runtime.lowlevel import LOW_LEVEL
from tests.runtime_config.support import program

Captured = pytest.CaptureFixture[str]
Command = Callable[..., int]


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    path = program(tmp_path / "cgpu-container-runtime")
    (tmp_path / LOW_LEVEL).symlink_to(path)
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc" / "daemon.json"


@pytest.fixture
def command(config: Path, runtime: Path) -> Command:
    """Return a function that runs the command on those settings, for docker unless told."""

    def run(*options: str, engine: str = "docker") -> int:
        return main([engine, "--config", str(config), "--runtime", str(runtime), *options])

    return run


@pytest.mark.parametrize("engine", [name for name, one in ENGINES.items() if one.path and not one.is_part])
def test_the_command(config: Path, command: Command, runtime: Path, engine: str, capsys: Captured) -> None:
    """The command shows, adds, does nothing the second time, and removes; a file that it made is removed."""
    assert command("--dry-run", engine=engine) == 0
    assert str(runtime) in capsys.readouterr().out
    assert not config.exists()
    assert command(engine=engine) == 0
    assert str(runtime) in config.read_text()
    assert "runtime cgpu added" in capsys.readouterr().out
    assert command(engine=engine) == 0
    assert "nothing to change" in capsys.readouterr().out
    assert command("--remove", engine=engine) == 0
    assert not config.exists()
    assert command("--remove", engine=engine) == 0


def test_a_runtime_without_its_second_name(
    config: Path, command: Command, runtime: Path, capsys: Captured
) -> None:
    """NVIDIA's list is not given a name that is not there: NVIDIA's runtime would go on to the next one."""
    runtime.with_name(LOW_LEVEL).unlink()
    assert command(engine="nvidia") == 1
    assert f"--runtime {runtime}.low-level: " in capsys.readouterr().err
    assert not config.exists()


def test_folders_that_are_made(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root can write into a new folder of settings, under any umask."""
    before = os.umask(0)
    try:
        config = tmp_path / "etc/deep/daemon.json"
        monkeypatch.setitem(ENGINES, "docker", Docker(path=str(config)))
        assert main(["docker", "--runtime", str(runtime)]) == 0
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o7777 for path in (config.parent, config.parent.parent)} == {0o755}
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["docker", "--config", "daemon.json", "--runtime", str(runtime)]) == 1


def test_a_folder_that_is_not_there(command: Command, config: Path, capsys: Captured) -> None:
    """A folder that --config misspells is not made, and --dry-run says so, too."""
    config.parent.rmdir()
    for options in ((), ("--dry-run",), ("--remove",)):
        assert command(*options) == 1
        assert f"--config {config}: there is no folder {config.parent}; " in capsys.readouterr().err
    assert not config.parent.exists()


PROTECT = """
mount --make-rprivate /; mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"
shift; exec "$@"
"""


@pytest.mark.root
@pytest.mark.parametrize("option", ["--dry-run", "--remove"])
def test_a_read_only_folder(config: Path, command: Command, runtime: Path, option: str) -> None:
    """--dry-run predicts that a file cannot be changed; without it nothing is begun."""
    if option == "--remove":
        assert command() == 0
    words = ["docker", "--config", str(config), "--runtime", str(runtime), option]
    program = [sys.executable, "-m", "cgpu.runtime_config.main", *words]
    script = ["unshare", "-m", "bash", "-ec", PROTECT, "x", str(config.parent), *program]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    line = f"{config}: cannot be changed: {config.parent} is on a read-only file system"
    assert f"problem: {line}" in done.stdout or f"cgpu-runtime-config: {line}" in done.stderr
    assert config.exists() == (option == "--remove")


def test_the_diff_is_exact(config: Path, command: Command, runtime: Path, capsys: Captured) -> None:
    """--dry-run prints a patch, also for a new file and for a last line without an end."""
    config.write_text('{"a": 1}')
    command("--dry-run", engine="docker")
    shown = capsys.readouterr().out
    saved = (
        f'--- /dev/null\n+++ {config}.before-cgpu\n@@ -0,0 +1 @@\n+{{"a": 1}}\n\\ No newline at end of file\n'
    )
    assert shown.startswith(f'{saved}--- {config}\n+++ {config}\n@@ -1 +1,8 @@\n-{{"a": 1}}\n')
    config.unlink()
    command("--dry-run")
    shown = capsys.readouterr().out
    command()
    added = config.read_text().splitlines()
    new = "".join(f"+{line}\n" for line in added)
    assert shown == f"--- /dev/null\n+++ {config}\n@@ -0,0 +1,{len(added)} @@\n{new}"


def test_what_the_engine_refuses_is_taken_back(
    tmp_path: Path, config: Path, command: Command, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Settings that the engine's own checker refuses do not stay."""
    program(tmp_path / "dockerd", "echo '--validate: bad'; [ $1 = --help ]")
    monkeypatch.setitem(ENGINES, "docker", Docker(search=(str(tmp_path),)))
    assert command() == 1
    assert "daemon.json: dockerd: --validate: bad" in capsys.readouterr().err
    assert not config.exists()


def test_advice_does_not_end_dockerd(command: Command, capsys: Captured) -> None:
    """After a removal a restart is advised: a reload would leave the runtime in dockerd, or end it."""
    command()
    assert capsys.readouterr().out.endswith("added; now: systemctl try-reload-or-restart docker\n")
    command("--remove")
    assert capsys.readouterr().out.endswith("removed; now: systemctl restart docker\n")


def test_hooks_have_no_file_to_choose(tmp_path: Path, capsys: Captured) -> None:
    """--config is refused where an engine's settings are files of ours."""
    assert main(["hooks", "--config", str(tmp_path / "x")]) == 1
    assert "hooks has no settings file to choose" in capsys.readouterr().err


def test_the_original_of_docker(tmp_path: Path, runtime: Path) -> None:
    """The file as it was lies beside it as long as the runtime is in it; mode and link are kept."""
    target, link = tmp_path / "daemon.json", tmp_path / "link.json"
    target.write_text('{"debug": true}')
    target.chmod(0o640)
    link.symlink_to(target)
    command = ["docker", "--config", str(link), "--runtime", str(runtime)]
    assert main(command) == 0
    saved = tmp_path / "link.json.before-cgpu"
    assert (saved.read_text(), saved.stat().st_mode & 0o777) == ('{"debug": true}', 0o600)
    assert main([*command, "--remove"]) == 0
    assert target.read_text() == '{"debug": true}'
    assert (link.is_symlink(), target.stat().st_mode & 0o777) == (True, 0o640)
    assert not (tmp_path / "link.json.before-cgpu").exists()


@pytest.mark.parametrize("path", ["relative", "/does/not/exist", "/etc/passwd"])
def test_a_runtime_that_is_no_program(tmp_path: Path, path: str, capsys: Captured) -> None:
    """Only the absolute path of a program is written into settings."""
    assert main(["docker", "--config", str(tmp_path / "d"), "--runtime", path]) == 1
    assert capsys.readouterr().err.startswith(
        f"cgpu-runtime-config: --runtime {path}: expected the absolute path"
    )
    assert not (tmp_path / "d").exists()


def test_two_writers_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that write the same file at a time use two temporary files; the later one stays."""
    path = tmp_path / "daemon.json"
    path.write_text("old")
    sync, one = os.fsync, os.getpid()

    def meet_another(descriptor: int) -> None:
        monkeypatch.setattr("os.fsync", sync)
        monkeypatch.setattr("os.getpid", lambda: one + 1)
        files.apply([FileEdit(path, b"old", b"theirs")])
        sync(descriptor)

    monkeypatch.setattr("os.fsync", meet_another)
    files.apply([FileEdit(path, b"old", b"ours")])
    assert path.read_bytes() == b"ours"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_later_failure_takes_the_former_edits_back(tmp_path: Path) -> None:
    """Either all of several files are changed or none; one that another program has changed stays."""
    first, second = tmp_path / "first", tmp_path / "new" / "second"
    first.write_text("1")
    edits = [FileEdit(first, b"1", b"2"), FileEdit(second, b"gone", b"2")]
    with pytest.raises(CgpuError, match="second: was changed by another program meanwhile"):
        files.apply(edits)
    assert (first.read_text(), second.exists()) == ("1", False)
