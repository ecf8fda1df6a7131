# SPDX-License-Identifier: Apache-2.0
"""The line that the wrapper has written, on its way through the hook in C, and the answer of the engine."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.client.support import CONTAINER, MIB, T4
from tests.hook.support import FakeTree, Result, compile_hook

SHIM = Path(__file__).with_name("shim.h")
START = pytest.mark.parametrize("stage", ["prestart", "createRuntime"])
CREATE = f"create id={CONTAINER} gpu=0:{6043 * MIB}:1:0"
DESTROY = f"destroy id={CONTAINER}"
REASON = "GPU 0 has 3023 MiB of 15109 MiB left, and 6043 MiB were requested"


@pytest.fixture(scope="session")
def answered_hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a hook, with sanitizers, whose engine answers what a file says. Without its script."""
    folder = tmp_path_factory.mktemp("answered")
    options = ("-include", str(SHIM), "-fsanitize=address,undefined")
    return compile_hook(folder, *options)


@pytest.fixture
def answered(answered_hook: Path, tmp_path: Path) -> FakeTree:
    return FakeTree(tmp_path, answered_hook).build(T4, T4)


def answer(tree: FakeTree, number: int, reason: str = "") -> list[str]:
    """Have the engine refuse to create a container; return what it was asked, and what the hook then says."""
    (tree.base / "refuses").write_text(str(number))
    (tree.base / "reason").write_text(reason)
    (tree.base / "lines").unlink(missing_ok=True)
    result = tree.run(*tree.given())
    assert result.status == 1
    return [*(tree.base / "lines").read_text().splitlines(), result.errors]


def refusal(why: str) -> str:
    return f"opencgpu: container {CONTAINER}: {why}\n"


@START
@pytest.mark.parametrize("words", [f"gpu=0:{MIB}:2:1 gpu=1:{MIB}:1:0 native=3", "share=6f1c0a52 share=0a1b"])
def test_registers(tree: FakeTree, stage: str, words: str) -> None:
    """The engine gets the line as it is, with the pid at its end; no configuration and no bundle is read."""
    written = f"create id={CONTAINER} {words} pid=4711"
    tree.settings["future"] = 1
    assert tree.run(*tree.given(words, stage=stage)) == Result(0, "", written)


def test_removes(tree: FakeTree) -> None:
    """poststop writes its line, whatever the state; an engine that does not take it leaves that to Python."""
    assert tree.run(*tree.given(stage="poststop"), state=b"x") == Result(0, "", DESTROY)
    (tree.path / "version").unlink()
    tree.inst_ctl.unlink()
    assert tree.run(*tree.given(stage="poststop")) == Result(0, "", "")


def test_engines_answer(answered: FakeTree) -> None:
    """A line that the engine refuses is refused with the engine's reason, and nothing is asked twice."""
    asked, said = answer(answered, errno.ENOMEM, f"{REASON}\nmore")
    assert (asked, said) == (f"{CREATE} pid=4711", refusal(REASON))
    # There is such an errno where the tree is gone, too.
    assert answer(answered, errno.ENOENT, "there is no GPU 9")[-1] == refusal("there is no GPU 9")
    assert answer(answered, errno.EPERM)[-1] == refusal(
        f"the engine at {answered.path} refused: Operation not permitted"
    )


@pytest.mark.parametrize("number", [errno.EIO, errno.EMSGSIZE])
def test_half_a_registration(answered: FakeTree, number: int) -> None:
    """Where the engine may have registered a part, the hook takes it back."""
    assert answer(answered, number)[:2] == [f"{CREATE} pid=4711", DESTROY]


def test_engine_gone(engineless: FakeTree, answered: FakeTree) -> None:
    """An engine that is gone is waited for a moment; then the line says so."""
    down = refusal(
        f"the engine at {answered.path} is not running, so containers with a GPU slice cannot start; see: "
        "cgpu doctor"
    )
    assert engineless.path == answered.path
    *asked, said = answer(answered, errno.ENOTCONN)
    assert (set(asked), said) == ({f"{CREATE} pid=4711"}, down)
    assert len(asked) > 2
    answered.inst_ctl.unlink()
    assert engineless.run(*engineless.given()) == Result(1, down, "")


def test_engine_comes_back(engineless: FakeTree, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An engine that is started again in time gets the line."""
    program = compile_hook(tmp_path_factory.mktemp("patient"), "-UCGPU_RESTART_MS", "-DCGPU_RESTART_MS=60000")
    command = [str(program), *engineless.given()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=engineless.base, text=True) as hook:
        assert hook.stdin is not None
        hook.stdin.write(engineless.state())
        hook.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            hook.wait(timeout=0.2)
        engineless.path.mkdir()
        written = engineless.base / "new"
        written.touch()
        written.rename(engineless.inst_ctl)
        assert hook.wait(timeout=60) == 0
    assert engineless.inst_ctl.read_text() == f"{CREATE} pid=4711"


def test_drained_node(tree: FakeTree) -> None:
    """While the node is drained, no line reaches the engine."""
    (tree.base / "draining").touch()
    result = tree.run(*tree.given())
    assert (result.status, result.written) == (1, "")
    assert result.errors.startswith(refusal("no slices are given out while OpenCGPU is removed")[:-1])
    assert result.errors.endswith("cgpu doctor --fix\n")


def test_long_line(tree: FakeTree) -> None:
    """A line that the engine would not take whole is refused; the wrapper writes none."""
    result = tree.run(*tree.given(" ".join(["share=x"] * 600)))
    assert result == Result(1, refusal("its request is too long; expected at most 4096 bytes"), "")


def test_state_that_cannot_be_read(tree: FakeTree) -> None:
    """An error while the state is read refuses the container, also after a valid part."""
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        os.write(writer, tree.state().encode())
        command = [str(tree.program), *tree.given()]
        done = subprocess.run(
            command, stdin=reader, capture_output=True, check=False, cwd=tree.base, timeout=60
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 1
    assert b"no pid of its process (Resource temporarily unavailable)" in done.stderr
    assert tree.inst_ctl.read_text() == ""


def test_without_python(tree: FakeTree, tmp_path: Path) -> None:
    """Without Python, a container that needs it is refused in one line."""
    folder = tmp_path / "without"
    folder.mkdir()
    tree.program = compile_hook(folder, python="/nowhere/python3")
    result = tree.run("prestart")
    line = "opencgpu: cannot start /nowhere/python3: No such file or directory; install this Python\n"
    assert result == Result(1, line, "")
    # What the engine says needs none: the message is the hook's, and the line in the logs alone is missing.
    tree.inst_ctl.unlink()
    tree.inst_ctl.symlink_to("/dev/full")
    result = tree.run(*tree.given())
    assert (result.status, "refused: No space left on device\n" in result.errors) == (1, True)


PIDS = [b"0", b"1.0", b"1e0", b"-1", b'"1"', b"true", b"4194305", b'1,"pid":1', b"1x", b"[1]", b"9" * 99]
STATES = [
    *(b"", b"{}", b"[]", b'{"id":"c1"}', b'["pid",1]', b'{"a":{"pid":1}}', b'{"a":"\\"pid\\":1,"}'),
    *(b'{"id":"c1","pid":1', b'{"pid":1,"x":"', b'{"pid":1,"x":"\\"}', b'{"pid":47', b'{"pid":1}}'),
    *(b'{"id":"c1","pid":' + pid + b"}" for pid in PIDS),
    b'{"pid":1,"x":"' + b"y" * (1 << 20) + b'"}',
]


@pytest.mark.parametrize("state", STATES)
def test_no_pid(answered: FakeTree, state: bytes) -> None:
    """A state without one plain pid, or over 1 MiB, refuses the container."""
    (answered.base / "refuses").write_text("0")
    result = answered.run(*answered.given(), state=state)
    assert (result.status, result.written) == (1, "")
    assert result.errors.startswith(refusal("state on standard input: no pid of its process (")[:-1])


HOSTILE = st.sampled_from(
    ['"pid":7', "pid", '\\"', "\\", '{"pid":8}', "}", "]", "\u00e9", '", "pid": 9, "x": "']
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | HOSTILE,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(HOSTILE | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@example({"annotations": {"pid": 5, "a": '"pid":6,'}}, 7, True, None)
@given(
    st.dictionaries(HOSTILE | st.text(max_size=3), VALUES, max_size=4),
    st.integers(1, 1 << 22),
    st.booleans(),
    st.sampled_from([None, 2]),
)
@settings(suppress_health_check=list(HealthCheck), max_examples=60)
def test_finds_the_pid(
    answered: FakeTree, members: dict[str, object], pid: int, plain: bool, indent: int | None
) -> None:
    """In any state the pid is the outermost object's, whatever an image wrote into annotations."""
    items = [(name, value) for name, value in members.items() if name != "pid"]
    items.insert(len(items) // 2, ("pid", pid))
    state = json.dumps(dict(items), ensure_ascii=plain, indent=indent)
    (answered.base / "refuses").write_text("0")
    answered.inst_ctl.write_text("")
    assert answered.run(*answered.given(), state=state).written == f"{CREATE} pid={pid}"
