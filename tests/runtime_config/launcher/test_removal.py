# SPDX-License-Identifier: Apache-2.0
"""A removal by force of what is not there ends in the launcher as in runc and crun; all others go on."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime_config.support import Launcher

RUNC = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin")
CRUN = shutil.which("crun", path="/usr/sbin:/usr/bin:/sbin:/bin")
SANE = "0123456789abcdef" * 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Have a folder for a runtime's state, in which there is one container."""
    path = tmp_path / "state"
    (path / "there").mkdir(parents=True)
    return path


def remove(runtime: Path | str, root: Path, *arguments: str) -> tuple[int, str]:
    """Run a removal; return the status, and all that was printed."""
    done = subprocess.run(
        [str(runtime), "--root", str(root), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", ["runc", "crun"])
@pytest.mark.parametrize("more", [(), ("--log-format", "json"), ("--systemd-cgroup", "--log-format", "json")])
def test_nothing_to_remove(launcher: Launcher, root: Path, name: str, more: tuple[str, ...]) -> None:
    """The runtime is not started: there is nothing to say, and nothing to do."""
    (launcher.bin / "runc").unlink()
    launcher.tool(name)
    (launcher.base / "calls").unlink(missing_ok=True)
    assert remove(launcher.program, root, *more, "delete", "--force", SANE) == (0, "")
    assert not (launcher.base / "calls").exists()
    assert [path.name for path in root.iterdir()] == ["there"]


@pytest.mark.parametrize("runtime", [RUNC, CRUN], ids=["runc", "crun"])
def test_real_runtimes_do_the_same(root: Path, runtime: str | None) -> None:
    """They succeed without a word where they have no container, and change nothing."""
    if runtime is None:
        pytest.skip("this runtime is not installed")
    assert remove(runtime, root, "delete", "--force", SANE) == (0, "")
    assert [path.name for path in root.iterdir()] == ["there"]


def test_log_is_as_by_runc(launcher: Launcher, root: Path, tmp_path: Path) -> None:
    """The log is there afterwards, empty, with the same rights; what was in it stays."""
    if RUNC is None:
        pytest.skip("runc is not installed")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    kept = tmp_path / "kept"
    kept.write_text("before\n")
    (launcher.base / "calls").unlink(missing_ok=True)
    command = ("--log-format", "json", "delete", "--force", SANE)
    for program, log in ((launcher.program, ours), (RUNC, theirs), (launcher.program, kept)):
        assert remove(program, root, "--log", str(log), *command) == (0, "")
    assert ours.read_text() == theirs.read_text() == ""
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(theirs.stat().st_mode)
    assert kept.read_text() == "before\n"
    assert not (launcher.base / "calls").exists()


GO_ON = [
    ("delete", "--force", "there"),
    ("delete", SANE),
    ("delete", "--force", ".."),
    ("delete", "--force", "."),
    ("delete", "--force", "a/b"),
    ("delete", "--force", "--force"),
    ("delete", "--force", SANE, "another"),
    ("delete", "--force", "--", SANE),
    ("delete", "--", SANE),
    ("delete", "--force=true", SANE),
    ("delete", "--force=false", SANE),
    ("delete", "--regex", SANE),
    ("delete", "-rf", SANE),
    ("delete", SANE, "--force"),
    ("delete", "force", SANE),
    ("delete", "-force", SANE),
    ("delete", "-f", SANE),
    ("delete", "--f", SANE),
    ("delete", "--force", "a" * 5000),
    ("kill", "--force", SANE),
    ("--log", "/nowhere/log", "delete", "--force", SANE),
    # What one of the runtimes takes in another way, or refuses.
    *(
        (*options, "delete", "--force", SANE)
        for options in (
            ("--log", "syslog:x"),
            ("--log", "journald:x"),
            ("--log", "file:/x"),
            ("--log", "/tmp/a:b"),
            ("--log", "relative"),
            ("--log=/dev/null",),
            ("--log", "/dev/null", "--log", "/dev/null"),
            ("--log-format", "bogus"),
            ("--log-format=json",),
            ("--root", "/dev"),
            ("--root=/dev",),
            ("-root", "/dev"),
            ("--rootless=true",),
            ("--rootless", "true"),
            ("--debug",),
            ("--debug=maybe",),
            ("--systemd-cgroup=bogus",),
            ("--cgroup-manager", "systemd"),
            ("--log-level", "info"),
            ("--criu", "x"),
            ("--",),
        )
    ),
]


@pytest.mark.parametrize("arguments", GO_ON, ids=" ".join)
def test_all_others_go_on(launcher: Launcher, root: Path, arguments: tuple[str, ...]) -> None:
    """Where there is a container, or the launcher cannot know, the runtime has its call unchanged."""
    words = ["--root", str(root), *arguments]
    assert launcher.run(*words) == ["runc", *words]


def test_the_root_has_to_be_named_and_there(launcher: Launcher, tmp_path: Path) -> None:
    """Each runtime has a root of its own, and makes it."""
    assert launcher.run("delete", "--force", SANE) == ["runc", "delete", "--force", SANE]
    for root in (tmp_path / "missing", Path("/dev/null"), Path("relative"), ""):
        words = ["--root", str(root), "delete", "--force", SANE]
        assert launcher.run(*words) == ["runc", *words]


def test_other_runtimes_have_their_call(launcher: Launcher, root: Path) -> None:
    """Where another runtime has its state is not known here."""
    for name in ("youki", "nvidia-container-runtime"):
        launcher.config.write_text(f'{{"low_level_runtime": "{launcher.tool(name)}"}}')
        words = ["--root", str(root), "delete", "--force", SANE]
        assert launcher.run(*words) == [name, *words]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
    | st.sampled_from(["there", SANE])
)
def test_ids_are_judged_as_by_runc(launcher: Launcher, root: Path, container: str) -> None:
    """Whatever the id, a removal succeeds through the launcher where it succeeds by runc alone."""
    if RUNC is None:
        pytest.skip("runc is not installed")
    (launcher.bin / "runc").unlink()
    (launcher.bin / "runc").symlink_to(RUNC)
    outcomes = []
    for program in (launcher.program, RUNC):
        (root / "there").mkdir(exist_ok=True)
        status, text = remove(program, root, "delete", "--force", container)
        outcomes.append((status, "level=error" in text, sorted(path.name for path in root.iterdir())))
    assert outcomes[0] == outcomes[1]
