# SPDX-License-Identifier: Apache-2.0
"""The hook in C: what it does alone, and what it leaves to Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cgpu.client.tree import CONTAINER_NODES, GPU_NODES, ROOT_NODES
from cgpu.config.effective import DEFAULTS
from tests.client.support import CONTAINER, MIB, T4
from tests.hook.support import FakeTree, compile_hook, write_recorder
from tests.request.shares import SHARE

GRANT = ("--grant", f"0:{6043 * MIB}:1:0")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> FakeTree:
    """Return a tree whose hook has a recorder in the place of Python, and sanitizers in it."""
    base = tmp_path_factory.mktemp("alone")
    program = compile_hook(base, "-fsanitize=address,undefined", python=write_recorder(base))
    return FakeTree(base, program=program).build(T4, T4)


def run(tree: FakeTree, state: bytes, *arguments: str) -> tuple[bytes | None, int, str]:
    """Run the hook; return what Python got, None without it, the status, what was written."""
    tree.inst_ctl.write_text("")
    command = [*tree.command(), *arguments]
    done = subprocess.run(command, input=state, capture_output=True, check=False, cwd=tree.base, timeout=60)
    assert done.stderr == b""
    python = done.stdout.removeprefix(b"python\n") if done.stdout else None
    return python, done.returncode, tree.inst_ctl.read_text()


def handed(arguments: Sequence[str], state: bytes) -> bytes:
    """Return what the recorder says of a call that was left to Python as it came."""
    return b"".join(os.fsencode(word) + b"\0" for word in arguments) + state


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("prestart", *GRANT), f"create id={CONTAINER} pid=4711 gpu=0:{6043 * MIB}:1:0"),
        (
            ("createRuntime", *GRANT, "--grant", "1:1048576:0:1", "--native", "3"),
            f"create id={CONTAINER} pid=4711 gpu=0:{6043 * MIB}:1:0 gpu=1:1048576:0:1 native=3",
        ),
        (("prestart", "--share", SHARE), f"create id={CONTAINER} pid=4711 share={SHARE}"),
        (("poststop",), f"destroy id={CONTAINER}"),
    ],
)
def test_does_alone(alone: FakeTree, arguments: tuple[str, ...], line: str) -> None:
    """What the wrapper has worked out needs no Python; members that are not known change nothing."""
    more = {"annotations": {"a": 'b\\"\n'}, "x": [[], {}, [1, -2, {"y": None}], True], "bundlePath": "/b"}
    assert run(alone, alone.state(**more).encode(), *arguments) == (None, 0, line)


BAD_GRANTS = ["", "0:1:1", "0:1:1:0:0", "0:0:1:0", "0:1:1:2", "0:1:1000:0", f"0:{(1 << 50) + 1}:1:0"]
BAD_GRANTS += ["00:1:1:0", " 0:1:1:0", "0:1:1:0 ", "0:-1:1:0", "0:1:1:0\n"]


@pytest.mark.parametrize(
    "arguments",
    [
        *((), ("prestart",), ("createRuntime",), ("poststart", *GRANT)),
        *(("prestart", *GRANT, *more) for more in (("--grant",), ("--share", SHARE), ("--gant", "0:1:1:0"))),
        *(("prestart", *GRANT, "--native", text) for text in ("x", "00")),
        ("prestart", "--native", "0", *GRANT),
        *(("prestart", "--share", text) for text in (SHARE.upper(), SHARE + "0")),
        ("prestart", "--grant"),
        *(("prestart", "--grant", text) for text in BAD_GRANTS),
        ("prestart", *GRANT * 200),
        # A line that the engine takes, and too long a one for the log.
        ("prestart", *GRANT * 100),
    ],
)
def test_leaves_arguments(alone: FakeTree, arguments: tuple[str, ...]) -> None:
    """Arguments that need a rule, or are wrong, go to Python as they came."""
    state = alone.state().encode()
    assert run(alone, state, *arguments) == (handed(arguments, state), 0, "")


PIDS = [b"0", b"1.0", b"1e0", b"01", b"-1", b'"1"', b"true", b"4194305", b'1,"pid":1', b"1}"]
IDS = [
    b'"c\\u0031"',
    b'"c 1"',
    b'"c1\\n"',
    b'"-c1"',
    b'".."',
    b'""',
    b"7",
    b'"c1","id":"c2"',
    b'"%s"' % (b"1" * 128),
]
OTHERS = [b'"\xc3\xa9"', b'"\x01"', b'"\\x"', b'"\\u00g0"', b"nul", b"[1,]", b'{"a":1 "b":2}', b"[" * 100000]
OTHERS += [b"[" * 40 + b"]" * 40, b'"' + b"y" * (1 << 20) + b'"']


@pytest.mark.parametrize(
    "state",
    [
        *(b"", b"{}", b"[]", b"null", b'{"id":"c1"}', b'{"i\\u0064":"c1","pid":1}'),
        *(b'{"id":"c1","pid":1' + end for end in (b"", b",}", b"}\0", b',"bundle":7}')),
        *(b'{"id":"c1","pid":' + pid + b"}" for pid in PIDS),
        *(b'{"id":' + id_ + b',"pid":1}' for id_ in IDS),
        *(b'{"id":"c1","pid":1,"x":' + value + b"}" for value in OTHERS),
    ],
)
def test_leaves_states(alone: FakeTree, state: bytes) -> None:
    """A state that is not plain goes to Python, and Python reads it as it came, up to what it would read."""
    arguments = ("prestart", *GRANT)
    assert run(alone, state, *arguments) == (handed(arguments, state[: (1 << 20) + 1]), 0, "")


def test_leaves_names_of_nodes(alone: FakeTree) -> None:
    """An id that is the name of a node of the tree goes to Python, which refuses it."""
    for id_ in sorted({*GPU_NODES, *ROOT_NODES, *CONTAINER_NODES}):
        assert run(alone, alone.state(id=id_).encode(), "prestart", *GRANT)[0] is not None, id_


@pytest.mark.parametrize(
    "config",
    [
        *({"log_format": form} for form in ("json", "journal", None)),
        *({"tree": path} for path in ("", "relative", "/nowhere")),
        *({"unknown": 1}, {"policy": "1"}, {"shared_node": None}, {"low_level_runtime": 1}),
        *({"hook_timeout": True}, {"max_inst": [1]}),
    ],
)
def test_leaves_configurations(alone: FakeTree, config: dict[str, object]) -> None:
    """What the configuration says of the log, and one that is not as an engine writes it, go to Python."""
    tree = FakeTree(alone.base, alone.program, config)
    assert run(tree, tree.state().encode(), "prestart", *GRANT)[0] is not None


@pytest.mark.parametrize("second", ["null", '"/nowhere"'])
def test_leaves_a_tree_that_is_given_twice(alone: FakeTree, second: str) -> None:
    """Of two values Python takes the last."""
    command = [*alone.command(), "prestart", *GRANT]
    (alone.base / "config.json").write_text(f'{{"tree": "{alone.path}", "tree": {second}}}')
    state = alone.state().encode()
    done = subprocess.run(command, input=state, capture_output=True, check=True, cwd=alone.base, timeout=60)
    assert done.stdout.startswith(b"python\n")


def test_takes_whole_configuration(alone: FakeTree) -> None:
    """Every key with its default is taken."""
    tree = FakeTree(alone.base, alone.program, {**DEFAULTS, "tree": str(alone.path)})
    assert run(tree, tree.state().encode(), "prestart", *GRANT)[0] is None


def test_leaves_a_node_that_is_drained(alone: FakeTree) -> None:
    """While OpenCGPU is removed from the node, Python says so."""
    drained = alone.base / "draining"
    drained.touch()
    try:
        assert run(alone, alone.state().encode(), "prestart", *GRANT)[0] is not None
    finally:
        drained.unlink()


def test_a_state_that_cannot_be_read(tree: FakeTree) -> None:
    """An error while the state is read refuses the container, whatever has come before it."""
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        os.write(writer, tree.state().encode())
        command = [*tree.command(), "prestart", *GRANT]
        done = subprocess.run(
            command, stdin=reader, capture_output=True, check=False, cwd=tree.base, timeout=60
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 1
    assert b"cannot be read (Resource temporarily unavailable)" in done.stderr
    assert tree.inst_ctl.read_text() == ""


@pytest.mark.root
def test_without_its_own_files(tmp_path: Path) -> None:
    """Where the hook does not find its script it says why, and nothing of Python."""
    program = compile_hook(tmp_path)
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "hook"]
    done = subprocess.run(
        [*command, str(program), "prestart"], input=b"{", capture_output=True, check=False, timeout=60
    )
    line = b"opencgpu: /proc/self/exe: No such file or directory; this program finds its other files by it\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_without_python(tree: FakeTree, tmp_path: Path) -> None:
    """Where Python is missing, what needs it is refused in one line."""
    folder = tmp_path / "without"
    folder.mkdir()
    tree.program = compile_hook(folder, python="/nowhere/python3")
    result = tree.run("prestart")
    line = "opencgpu: cannot start /nowhere/python3: No such file or directory; install this Python\n"
    assert (result.status, result.errors, result.written) == (1, line, "")
