# SPDX-License-Identifier: Apache-2.0
"""Command lines are understood as runc and crun understand them, by the launcher and by Python alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.runtime_config.oci_runtime.arguments import COMMANDS, GLOBAL, START, Call, read
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
    (["--new", "x", "create", "id"], "option --new: not known here"),
    (["create", "--new", "/b", "id"], "option --new: not known here"),
    (["create", "--config=/c", "id"], "option --config=/c: not known here"),
    (["create", "-bundle/b", "id"], "option -bundle/b: not known here"),
    (["create", "--bundle"], "option --bundle: not known here"),
    (["--roo", "/r", "run", "id"], "option --roo: not known here"),
]


def parse(arguments: list[str]) -> Call:
    """Return what a command line says. Raises CgpuError."""
    call = Call()
    read(arguments, call)
    return call


def assert_passes(launcher: Launcher, arguments: list[str]) -> None:
    """Expect that the launcher gives a call of a container without a request to the runtime, unchanged."""
    place = launcher.bundle(spec())
    words = [str(place) if word in ("/b", "/b=c", "/late") else word for word in arguments]
    words = [f"--bundle={place}" if word == "--bundle=/b=c" else word for word in words]
    words = [f"-b={place}" if word == "-b=/b" else word for word in words]
    (place / "create").mkdir(exist_ok=True)
    (place / "create" / "config.json").write_text("{}")
    assert launcher.run(*words, cwd=place) == ["runc", *words]


@pytest.mark.parametrize(("arguments", "bundle", "container"), STARTS)
def test_the_bundle_is_found(launcher: Launcher, arguments: list[str], bundle: str, container: str) -> None:
    """Every way to name a bundle before the container's id is understood."""
    call = parse(arguments)
    assert (call.bundle, call.container, call.command in COMMANDS) == (bundle, container, True)
    assert_passes(launcher, arguments)


@pytest.mark.parametrize("arguments", PASSED)
def test_other_calls_start_nothing(launcher: Launcher, arguments: list[str]) -> None:
    """A call that starts no container is recognised, also with the word create in a value."""
    assert parse(arguments).command == ""
    assert_passes(launcher, arguments)


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_an_unknown_layout_is_refused(launcher: Launcher, arguments: list[str], message: str) -> None:
    """An option that is not known is never guessed over: Python gets it from the launcher, and refuses it."""
    with pytest.raises(CgpuError, match=message):
        parse(arguments)
    program, flags, script, *rest = launcher.run(*arguments)
    assert (program, flags, Path(script).name, rest) == ("python", "-IS", "launch.py", arguments)


def test_an_unknown_option_of_another_command_passes() -> None:
    """An unknown option matters only where a container could be started."""
    assert parse(["--new", "kill", "id"]).command == ""


def test_the_log_is_known_when_the_rest_is_not() -> None:
    """The log's place is there for the message about a call that is refused."""
    call = Call()
    with pytest.raises(CgpuError):
        read(["--log", "/l", "--log-format=json", "--new", "create"], call)
    assert (call.log, call.log_format) == ("/l", "json")


WORDS = st.sampled_from(
    [
        *(f"--{name}" for name in (*GLOBAL, *START)),
        *("-b", "--bundle=x", "--log=l", "--new", "--", "-", "create", "kill"),
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(WORDS, max_size=6))
def test_launcher_and_python_agree(launcher: Launcher, arguments: list[str]) -> None:
    """The launcher starts no Python only where Python would start nothing or find the same bundle."""
    place = launcher.bundle(spec("ALIYUN_COM_GPU_MEM_CONTAINER=1"))
    for name in {"x", *arguments}:
        if "/" not in name:
            (place / name).mkdir(exist_ok=True)
            (place / name / "config.json").write_text((place / "config.json").read_text())
    direct = launcher.run(*arguments, cwd=place)[0] == "runc"
    try:
        starts = bool(parse(arguments).command)
    except CgpuError:
        starts = True
    assert direct is not starts or not direct
