# SPDX-License-Identifier: Apache-2.0
"""Command lines are understood as runc and crun understand them."""

from __future__ import annotations

import pytest

from tests.runtime_config.support import Launcher, spec

STARTS = [
    (["create", "id"], ".", "id"),
    (["run", "--bundle", "/b", "id"], "/b", "id"),
    (["create", "-b", "/b", "id"], "/b", "id"),
    (["create", "-b=/b", "id"], "/b", "id"),
    (["create", "-bundle", "/b", "id"], "/b", "id"),
    (["create", "--bundle=/b=c", "id"], "/b=c", "id"),
    (["create", "--bundle", "/a", "--bundle", "/b", "id"], "/b", "id"),
    (["create", "--bundle", "/b", "--pid-file", "/p", "--console-socket", "/s", "id"], "/b", "id"),
    (["--root", "/r", "--log", "/l", "--log-format", "json", "create", "--bundle", "/b", "id"], "/b", "id"),
    (["--root=/r", "--systemd-cgroup", "--debug", "run", "-d", "--keep", "-b", "/b", "id"], "/b", "id"),
    (["--cgroup-manager", "cgroupfs", "--rootless=auto", "create", "--no-pivot", "id"], ".", "id"),
    (["--criu", "create", "run", "--preserve-fds", "2", "create"], ".", "create"),
    (["--root", "kill", "create", "--", "id"], ".", "id"),
    (["--", "create", "id"], ".", "id"),
    (["restore", "--bundle", "/b", "id"], "/b", "id"),
    (["create", "id", "--bundle", "/late"], ".", "id"),
    (["create", "--bundle", "create", "id"], "create", "id"),
    (["create"], ".", ""),
]
PASSED = [
    [],
    ["--version"],
    ["-v"],
    ["--help"],
    ["features"],
    ["state", "id"],
    ["kill", "--all", "id", "KILL"],
    ["--root", "create", "kill", "id"],
    ["--root", "/r", "delete", "--force", "id"],
    ["exec", "--process", "/p", "id"],
    ["start", "create"],
    ["events", "--stats", "id"],
    ["ps", "id"],
    ["update", "--memory", "1", "id"],
    ["--version", "create", "id"],
    ["create", "--help"],
    ["-"],
    ["--", "--", "create"],
]
REFUSED = [
    (["--new", "x", "create", "id"], "--new"),
    (["create", "--new", "/b", "id"], "--new"),
    (["create", "--config=/c", "id"], "--config=/c"),
    (["create", "-bundle/b", "id"], "-bundle/b"),
    (["create", "--bundle"], "--bundle"),
    (["--roo", "/r", "run", "id"], "--roo"),
]
ASKING = "ALIYUN_COM_GPU_MEM_CONTAINER=6"


def read(launcher: Launcher, *arguments: str) -> tuple[list[str], list[str]]:
    """Return what Python gets of a command line: what was read out of it, and all of it."""
    program, flags, script, *words = launcher.run(*arguments, cwd=launcher.bundle(spec(ASKING)))
    assert (program, flags, script.rpartition("/")[2]) == ("python", "-IS", "launch.py")
    return words[:6], words[6:]


@pytest.mark.parametrize(("arguments", "bundle", "container"), STARTS)
def test_the_bundle_is_found(launcher: Launcher, arguments: list[str], bundle: str, container: str) -> None:
    """Every way to name a bundle before the container's id is understood, and the log."""
    words, whole = read(launcher, *arguments)
    command = next(word for word in words if word in ("create", "run", "restore"))
    log = ["/l", "json"] if "--log" in arguments else ["", "text"]
    assert words == [command, bundle, container, *log, ""]
    assert whole == arguments
    assert command in arguments


def test_a_bundle_without_a_request(launcher: Launcher) -> None:
    """The file that is looked at is the one of the bundle that the command line names."""
    asks = launcher.bundle(spec(ASKING))
    plain = asks / "plain"
    plain.mkdir(exist_ok=True)
    (plain / "config.json").write_text("{}")
    for words in (["-b", "plain"], ["--bundle=plain"], ["-b", ".", "-bundle", "plain"], ["-b", str(plain)]):
        assert launcher.run("create", *words, "id", cwd=asks) == ["runc", "create", *words, "id"]
        assert launcher.run("create", *words[:-2], "id", cwd=plain)[0] == "runc"
        assert launcher.run("create", *words, "-b", "..", "id", cwd=plain)[0] == "python"


@pytest.mark.parametrize("arguments", PASSED)
def test_other_calls_start_nothing(launcher: Launcher, arguments: list[str]) -> None:
    """A call that starts no container goes on unchanged, also with the word create in a value."""
    assert launcher.run(*arguments, cwd=launcher.bundle(spec(ASKING))) == ["runc", *arguments]


@pytest.mark.parametrize(("arguments", "option"), REFUSED)
def test_an_unknown_layout_is_refused(launcher: Launcher, arguments: list[str], option: str) -> None:
    """An option that is not known is never guessed over: Python gets it and refuses it, whatever is asked."""
    words, whole = read(launcher, *arguments)
    assert (words[0], words[5], whole) == ("", option, arguments)
    assert launcher.run(*arguments, cwd=launcher.bundle(spec()))[0] == "python"


def test_an_unknown_option_of_another_command_passes(launcher: Launcher) -> None:
    """An unknown option matters only where a container could be started."""
    assert launcher.run("--new", "kill", "id") == ["runc", "--new", "kill", "id"]


def test_the_log_is_known_when_the_rest_is_not(launcher: Launcher) -> None:
    """The log's place is there for the message about a call that is refused."""
    words, _ = read(launcher, "--log", "/l", "--log-format=json", "--new", "create")
    assert words == ["", ".", "", "/l", "json", "--new"]
