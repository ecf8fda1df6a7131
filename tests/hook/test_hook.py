# SPDX-License-Identifier: Apache-2.0
"""The hook as the runtime starts it: a process, the state on standard input, a tree of plain files."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.client.support import CONTAINER, MIB, down
from tests.hook.support import HOOK, FakeTree
from tests.request.shares import OTHER_POD, OTHER_SHARE, SHARE, asking, by_containerd, put
from tests.request.support import ENV, spec

CREATE = f"create id={CONTAINER} pid=4711 "
DESTROY = f"destroy id={CONTAINER}"
GRANT = ("--grant", f"0:{6043 * MIB}:1:0")
GRANTED = f"{CREATE}gpu=0:{6043 * MIB}:1:0"
START = pytest.mark.parametrize("stage", ["prestart", "createRuntime"])


@START
def test_with_grants(tree: FakeTree, stage: str) -> None:
    """With grants the hook takes only id and pid from the state and never looks into the bundle."""
    result = tree.run(stage, *GRANT, "--grant", "1:1048576:5:1", state=tree.state(bundle="../nowhere"))
    assert (result.status, result.errors) == (0, "")
    assert result.written == GRANTED + " gpu=1:1048576:5:1"


@START
def test_with_a_whole_gpu(tree: FakeTree, stage: str) -> None:
    """A GPU that stays whole is registered as such, by argument or out of the bundle."""
    assert tree.run(stage, *GRANT, "--native", "1").written == f"{GRANTED} native=1"
    tree.inst_ctl.write_text("")
    vendor = {"ALIYUN_COM_GPU_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "0,1"}
    tree.bundle(spec({**ENV, **vendor}))
    assert tree.run(stage).written == f"{GRANTED} native=1"


@pytest.mark.parametrize("arguments", [("--native", "x"), (*GRANT, "--native"), ("--native", "1")])
def test_whole_gpus_are_numbers(tree: FakeTree, arguments: tuple[str, ...]) -> None:
    """What is no GPU's number, or stands without a slice, ends in one line and registers nothing."""
    result = tree.run("prestart", *arguments)
    assert (result.status, result.written) == (1, "")
    assert "--native" in result.errors
    assert result.errors.count("\n") == 1


@START
def test_with_shares(tree: FakeTree, stage: str) -> None:
    """With the ids of shares the engine knows the rest: no grant is written beside them."""
    result = tree.run(stage, "--share", SHARE, "--share", OTHER_SHARE, state=tree.state(bundle="../nowhere"))
    assert (result.status, result.errors) == (0, "")
    assert result.written == f"{CREATE}share={SHARE} share={OTHER_SHARE}"


@START
@pytest.mark.root
def test_shares_from_the_bundle(tree: FakeTree, stage: str) -> None:
    """Without arguments a share of the bundle is looked up as by the runtime, and a forged one refused."""
    put(tree.shares)
    tree.bundle(spec(asking(SHARE), by_containerd()))
    assert tree.run(stage).written == f"{CREATE}share={SHARE}"
    tree.inst_ctl.write_text("")
    for notes in (by_containerd(OTHER_POD), by_containerd(container="x"), {}):
        tree.bundle(spec(asking(SHARE), notes))
        result = tree.run(stage)
        assert (result.status, result.written) == (1, "")
        assert result.errors.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("--share", SHARE.upper()), ("--share",), ("--share", "x y"), (*GRANT, "--share", SHARE)]
)
def test_shares_are_ids(tree: FakeTree, arguments: tuple[str, ...]) -> None:
    """What is no id of a share, or stands beside a grant, ends in one line and registers nothing."""
    result = tree.run("prestart", *arguments)
    assert (result.status, result.written) == (1, "")
    assert "--share" in result.errors
    assert result.errors.count("\n") == 1


@START
def test_from_bundle(tree: FakeTree, stage: str) -> None:
    """Without grants the request is in the bundle."""
    tree.bundle(spec({**ENV, "NVIDIA_VISIBLE_DEVICES": "all", "ALIYUN_COM_GPU_SCHD_WEIGHT": "2"}))
    result = tree.run(stage)
    assert (result.status, result.errors) == (0, "")
    assert result.written == f"{CREATE}gpu=0:{6043 * MIB}:2:0 gpu=1:{6043 * MIB}:2:0"


def test_default_of_the_tree(tree: FakeTree) -> None:
    """The default that was written to the tree slices a container that names a GPU and no amount."""
    tree.bundle(spec({"NVIDIA_VISIBLE_DEVICES": "1"}))
    assert tree.run("prestart").written == ""
    (tree.path / "default_memsize").write_text(f"{5 * MIB}\n")
    assert tree.run("prestart").written == f"{CREATE}gpu=1:{5 * MIB}:1:0"


@pytest.mark.parametrize("env", [{}, {"NVIDIA_VISIBLE_DEVICES": "all"}, {**ENV, "CGPU_DISABLE": "true"}])
def test_asks_for_nothing(engineless: FakeTree, env: dict[str, str]) -> None:
    """A container that asks for nothing starts, engine or not."""
    engineless.bundle(spec(env))
    result = engineless.run("prestart")
    assert (result.status, result.errors) == (0, "")


@START
def test_engine_down(engineless: FakeTree, stage: str) -> None:
    """A container that asks does not start without an engine, and the line says how to start it."""
    engineless.bundle(spec(ENV))
    expected = f"opencgpu: {down(engineless.path)}\n"
    for arguments in ((stage,), (stage, *GRANT), (stage, "--share", SHARE)):
        result = engineless.run(*arguments)
        assert (result.status, result.errors, result.written) == (1, expected, "")


def test_malformed(tree: FakeTree) -> None:
    """A malformed request is refused in one line, and nothing is written."""
    tree.bundle(spec({**ENV, "ALIYUN_COM_GPU_MEM_DEV": "0\nx" + "y" * 70}))
    result = tree.run("prestart")
    assert result.status == 1
    assert result.errors == (
        "opencgpu: ALIYUN_COM_GPU_MEM_DEV=0\\nx" + "y" * 60 + "...: "
        "expected a whole number from 1 to 999999999 that stands for the whole card, such as 15\n"
    )
    assert result.written == ""


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ("{", "config.json: is not JSON (Expecting property name"),
        ("", "config.json: is not JSON (Expecting value: line 1 column 1 (char 0))"),
        ("[]", "config.json: a list: expected a JSON object"),
        ("[" * 200000, "config.json: is not JSON (nested too deep)"),
        (
            '{"process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=6\\u0000"]}}',
            "ALIYUN_COM_GPU_MEM_CONTAINER=6\\x00: ",
        ),
        ('{"process": {"env": [' + '"",' * 50000 + "1]}}", "process.env: 1: expected a NAME=VALUE string"),
        (
            '{"process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=' + "6" * (10 << 20) + '"]}}',
            "=" + "6" * 64 + "...: ",
        ),
        ('{"process": {"env": ["' + "x" * (17 << 20) + '"]}}', "cannot be read (File too large)"),
    ],
)
def test_hostile_bundle(
    engineless: FakeTree, tmp_path_factory: pytest.TempPathFactory, document: str, line: str
) -> None:
    """A broken or hostile config.json stops the container with one line."""
    # A short path: a message shows the beginning of one.
    tree = replace(engineless, base=tmp_path_factory.mktemp("b")).build(15109)
    tree.bundle(document)
    result = tree.run("prestart")
    assert result.status == 1
    assert result.errors.startswith("opencgpu: ")
    assert line in result.errors
    assert result.errors.count("\n") == 1
    assert result.written == ""


def test_no_bundle(tree: FakeTree) -> None:
    """A bundle that is gone stops the container."""
    result = tree.run("prestart", state=tree.state(bundle="/gone"))
    assert (result.status, result.errors) == (
        1,
        (
            "opencgpu: /gone/config.json: cannot be read (No such file or directory); "
            "expected a plain file up to 16 MiB\n"
        ),
    )


@pytest.mark.parametrize(
    "raw", [b"", b"\0", b"{", b"[]", b'{"id":"a"', b'{"id":"a\\nb","pid":1}', b"x" * (2 << 20)]
)
def test_hostile_state(tree: FakeTree, raw: bytes) -> None:
    """Hostile input stops a start with one line, and never a removal."""
    result = tree.run("prestart", *GRANT, state=raw)
    assert result.status == 1
    assert result.errors.startswith("opencgpu: ")
    assert result.errors.count("\n") == 1
    result = tree.run("poststop", state=raw)
    assert result.status == 0
    assert result.written == ""


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"id": "policy"}, "container id policy: this is the name of a node in the tree; choose another"),
        (
            {"id": "a gpu=0:1"},
            "container id a gpu=0:1: expected 1 to 127 letters, digits and _ . + -",
        ),
        ({"pid": 0}, "state on standard input: pid: 0: the process of the container is needed"),
    ],
)
def test_bad_state(tree: FakeTree, changes: dict[str, object], line: str) -> None:
    """A state that cannot be registered stops the container, and nothing is written."""
    result = tree.run("prestart", *GRANT, state=tree.state(**changes))
    assert (result.status, result.errors, result.written) == (1, f"opencgpu: {line}\n", "")


USAGE = (
    "expected: cgpu-hook prestart|createRuntime|poststop [--grant GPU:BYTES:WEIGHT:PRIORITY]... "
    "[--native GPU]... | --share ID..."
)
FORM = "expected GPU:BYTES:WEIGHT:PRIORITY, four whole numbers, such as 0:6336544768:1:0"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), f"stage : {USAGE}"),
        (("poststart",), f"stage poststart: {USAGE}"),
        (("prestart", "--grants", "x"), f"argument --grants: {USAGE}"),
        (("prestart", "--grant"), f"--grant : {FORM}"),
        (("prestart", "--grant", "0:0:1:0"), f"--grant 0:0:1:0: {FORM}"),
    ],
)
def test_usage(tree: FakeTree, arguments: tuple[str, ...], line: str) -> None:
    """A command line of another form is refused, and nothing is written."""
    result = tree.run(*arguments)
    assert (result.status, result.errors, result.written) == (1, f"opencgpu: {line}\n", "")


def test_bad_configuration(tree: FakeTree) -> None:
    """An effective configuration that cannot be understood stops a start, and never a removal."""
    tree.settings["future"] = 1
    result = tree.run("prestart", *GRANT)
    assert result.status == 1
    assert "config.json: future: 1: expected keys and types of docs/configuration.md" in result.errors
    assert tree.run("poststop").status == 0


# --- poststop ---


def test_poststop(tree: FakeTree) -> None:
    """poststop removes the registration, as often as asked, without a bundle."""
    for _ in range(2):
        result = tree.run("poststop", state=tree.state(status="stopped", pid=0, bundle="/gone"))
        assert (result.status, result.errors, result.written) == (0, "", DESTROY)


def test_poststop_engine_down(engineless: FakeTree) -> None:
    """poststop is content when the engine is down."""
    result = engineless.run("poststop")
    assert (result.status, result.errors) == (0, "")


def test_poststop_refused(tree: FakeTree) -> None:
    """poststop says what went wrong and lets the runtime go on."""
    tree.inst_ctl.unlink()
    tree.inst_ctl.symlink_to("/dev/full")
    result = tree.run("poststop")
    assert (result.status, result.errors) == (
        0,
        f"opencgpu: container {CONTAINER}: its slice was not removed (No space left on device)\n",
    )


# --- the launcher ---


@pytest.mark.parametrize("way", ["repository", "link", "site-packages"])
def test_launcher(way: str, tmp_path: Path) -> None:
    """The launcher finds its package beside itself, through links, and where pip puts it."""
    launcher = HOOK
    if way == "link":
        launcher = tmp_path / "cgpu-hook"
        launcher.symlink_to(HOOK)
    elif way == "site-packages":
        package = tmp_path / "cgpu"
        package.mkdir()
        source = HOOK.parent.parent / "cgpu"
        for path in [*source.glob("*.py"), *(source / name for name in ("client", "config", "request"))]:
            (package / path.name).symlink_to(path)
        (package / "hook").mkdir()
        for path in HOOK.parent.iterdir():
            if path.is_file():
                (package / "hook" / path.name).write_bytes(path.read_bytes())
        launcher = package / "hook" / "cgpu-hook"
        launcher.chmod(0o755)
    done = subprocess.run(
        [str(launcher), "prestat"], capture_output=True, check=False, cwd="/", env={"PYTHONPATH": "/nowhere"}
    )
    assert (done.returncode, done.stderr.decode()) == (1, f"opencgpu: stage prestat: {USAGE}\n")


def test_closed_descriptors() -> None:
    """Without standard input or standard error the hook still refuses."""
    command = f"exec {HOOK} prestart --grant 0:1:1:0 <&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], check=False).returncode == 1
