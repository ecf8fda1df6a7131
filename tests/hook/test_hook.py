# SPDX-License-Identifier: Apache-2.0
"""The hook as hooks.d has it: a process, the state on standard input, a tree of plain files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.client.support import CONTAINER, MIB, down
from tests.hook.support import HOOK, FakeTree, Result, code_of_hook
from tests.refusal import has_parts
from tests.request.shares import OTHER_POD, SHARE, asking, by_containerd, put
from tests.request.support import ENV, spec
from tests.runtime_config.oci_runtime.wrapper import DEAR

CREATE = f"create id={CONTAINER}"
DESTROY = f"destroy id={CONTAINER}"
PID = " pid=4711"
START = pytest.mark.parametrize("stage", ["prestart", "createRuntime"])
ALL = "NVIDIA_VISIBLE_DEVICES"
USAGE = "expected: cgpu-hook prestart|createRuntime|poststop [TREE LINE]"


def assert_refused(result: Result, *parts: str) -> None:
    """Expect that a container does not start, with one line, and that nothing was written."""
    assert (result.status, result.written) == (1, "")
    line = result.errors.removesuffix("\n")
    assert line != result.errors
    assert has_parts(line, f"opencgpu: {parts[0]}", *parts[1:]), line


@START
@pytest.mark.parametrize(
    ("env", "written"),
    [
        (
            {**ENV, ALL: "all", "ALIYUN_COM_GPU_SCHD_WEIGHT": "2"},
            " ".join(f"gpu={gpu}:{6043 * MIB}:2:0" for gpu in "01"),
        ),
        ({**ENV, "ALIYUN_COM_GPU_VISIBLE_DEVICES": "0", ALL: "0,1"}, f"gpu=0:{6043 * MIB}:1:0 native=1"),
    ],
)
def test_from_bundle(tree: FakeTree, stage: str, env: dict[str, str], written: str) -> None:
    """Without arguments the request is in the bundle."""
    tree.bundle(spec(env))
    assert tree.run(stage) == Result(0, "", f"{CREATE} {written}{PID}")


@START
@pytest.mark.root
def test_shares_from_the_bundle(tree: FakeTree, stage: str) -> None:
    """Without arguments a share of the bundle is looked up as by the runtime, and a forged one refused."""
    put(tree.shares)
    tree.bundle(spec(asking(SHARE), by_containerd()))
    assert tree.run(stage).written == f"{CREATE} share={SHARE}{PID}"
    tree.inst_ctl.write_text("")
    for notes in (by_containerd(OTHER_POD), by_containerd(container="x"), {}):
        tree.bundle(spec(asking(SHARE), notes))
        assert_refused(tree.run(stage), "")


def test_default_of_the_tree(tree: FakeTree) -> None:
    """The default that was written to the tree slices a container that names a GPU and no amount."""
    tree.bundle(spec({ALL: "1"}))
    assert tree.run("prestart").written == ""
    (tree.path / "default_memsize").write_text(f"{5 * MIB}\n")
    assert tree.run("prestart").written == f"{CREATE} gpu=1:{5 * MIB}:1:0{PID}"


@pytest.mark.parametrize("env", [{}, {ALL: "all"}, {**ENV, "CGPU_DISABLE": "true"}])
def test_asks_for_nothing(engineless: FakeTree, env: dict[str, str]) -> None:
    """A container that asks for nothing starts, engine or not."""
    engineless.bundle(spec(env))
    assert engineless.run("prestart") == Result(0, "", "")


@START
def test_engine_down(engineless: FakeTree, stage: str) -> None:
    """A container that asks does not start without an engine, and the line says how to start it."""
    engineless.bundle(spec(ENV))
    expected = f"opencgpu: {down(engineless.path)}\n"
    assert engineless.run(stage) == Result(1, expected, "")


@pytest.mark.parametrize("raw", [b"", b'{"id":"a\\nb","pid":1}', b"x" * (2 << 20)])
def test_hostile_state(tree: FakeTree, raw: bytes) -> None:
    """Hostile input stops a start with one line, and never a removal."""
    tree.bundle(spec({**ENV, ALL: "0"}))
    assert_refused(tree.run("prestart", state=raw), "")
    result = tree.run("poststop", state=raw)
    assert (result.status, result.written) == (0, "")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"id": "a gpu=0:1"}, "container id a gpu=0:1: expected 1 to 127 letters, digits and _ . + -"),
        ({"pid": 0}, "state on standard input: pid: 0: the process of the container is needed"),
        ({"bundle": "/gone"}, "/gone/config.json: cannot be read (No such file or directory)"),
    ],
)
def test_bad_state(tree: FakeTree, changes: dict[str, object], line: str) -> None:
    """A state that cannot be registered stops the container, and so does a bundle that is gone."""
    tree.bundle(spec({**ENV, ALL: "0"}))
    assert_refused(tree.run("prestart", state=tree.state(**changes)), line)


@pytest.mark.parametrize(
    "arguments", [(), ("poststart",), ("prestart", "/tree"), ("prestart", "a", "b", "c")]
)
def test_usage(tree: FakeTree, arguments: tuple[str, ...]) -> None:
    """A command line of another form is refused, and nothing is written."""
    assert_refused(tree.run(*arguments), f"stage {' '.join(arguments)}: {USAGE}")


def test_bad_configuration(tree: FakeTree) -> None:
    """An effective configuration that cannot be understood stops a start, and never a removal."""
    tree.settings["future"] = 1
    assert_refused(tree.run("prestart"), "", "config.json: future: 1: expected keys and types")
    assert tree.run("poststop").status == 0


# --- poststop ---


def test_poststop(tree: FakeTree) -> None:
    """poststop removes the registration, as often as asked, without a bundle, and with an engine or not."""
    for _ in range(2):
        stopped = tree.state(status="stopped", pid=0, bundle="/gone")
        assert tree.run("poststop", state=stopped) == Result(0, "", DESTROY)
    tree.inst_ctl.unlink()
    (tree.path / "version").unlink()
    assert tree.run("poststop") == Result(0, "", "")


def test_poststop_refused(tree: FakeTree) -> None:
    """poststop says what went wrong and lets the runtime go on."""
    tree.inst_ctl.unlink()
    tree.inst_ctl.symlink_to("/dev/full")
    result = tree.run("poststop")
    line = f"opencgpu: container {CONTAINER}: its slice was not removed (No space left on device)\n"
    assert (result.status, result.errors) == (0, line)


# --- the launcher ---


def test_launcher(tmp_path: Path) -> None:
    """The launcher finds its package beside itself, and through a link; test_wheel.py has it by pip."""
    (tmp_path / "cgpu-hook").symlink_to(HOOK)
    for launcher in (HOOK, tmp_path / "cgpu-hook"):
        command, env = [str(launcher), "prestat"], {"PYTHONPATH": "/nowhere"}
        done = subprocess.run(command, capture_output=True, check=False, cwd="/", env=env)
        assert (done.returncode, done.stderr.decode()) == (1, f"opencgpu: stage prestat: {USAGE}\n")


def test_closed_descriptors() -> None:
    """Without standard input or standard error the hook still refuses."""
    for words in ("prestart", "prestart /nowhere 'create id=x gpu=0:1'"):
        command = f"exec {HOOK} {words} <&- 2>&-"
        assert subprocess.run(["/bin/sh", "-c", command], check=False).returncode == 1


def test_nothing_dear_is_imported(tree: FakeTree) -> None:
    """Each start pays for what the hook imports; a share of a pod is the longest way through it."""
    tree.settings["pod_variables"] = True
    tree.configure()
    put(tree.shares)
    tree.bundle(spec(asking(SHARE), annotations=by_containerd()))
    words = ["/usr/bin/python3", "-IS", "-X", "importtime", "-c", code_of_hook(), "createRuntime"]
    done = subprocess.run(
        words, cwd=tree.base, input=tree.state(), capture_output=True, text=True, check=False
    )
    found = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "cgpu.shares" in found, done.stderr
    assert not found & DEAR
