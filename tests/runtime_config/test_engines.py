# SPDX-License-Identifier: Apache-2.0
"""The settings of docker, containerd and podman: the runtime comes in, goes out, and nothing else changes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.runtime_config import containerd, docker, podman
from cgpu.runtime_config.main import main

RUNTIME = "/usr/lib/cgpu/cgpu-container-runtime"
CRI = 'plugins."io.containerd.grpc.v1.cri".containerd'
V2 = f'version = 2\n\n[plugins]\n  [{CRI}]\n    snapshotter = "native" # why\n'
ENGINE = "[engine]\n# kept\nruntime = 'crun'\n"

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SETTINGS = st.dictionaries(
    st.text().filter(lambda key: key not in ("runtimes", "default-runtime")), VALUES, max_size=4
)
RUNTIMES = st.dictionaries(st.text().filter(lambda key: key != "cgpu"), VALUES, min_size=1, max_size=2)


@given(SETTINGS, st.none() | RUNTIMES, st.sampled_from([None, 2, 4, "\t"]))
def test_docker_add_and_remove(settings: dict[str, object], runtimes: object, indent: int | None) -> None:
    """Adding keeps every other key in place; removing gives the first settings back; twice is as once."""
    document = settings if runtimes is None else {**settings, "runtimes": runtimes}
    text = json.dumps(document, indent=indent)
    added = docker.add(text, RUNTIME)
    seen = json.loads(added)
    assert seen["runtimes"].pop("cgpu") == {"path": RUNTIME}
    assert list(seen.items()) == list(document.items()) or (runtimes is None and seen.pop("runtimes") == {})
    assert docker.add(added, RUNTIME) == added
    removed = docker.remove(added)
    assert json.loads(removed or "{}") == document
    assert docker.remove(removed) == removed


def test_docker_in_full() -> None:
    """An ordinary file keeps its form to the last character."""
    text = '{\n  "features": {\n    "x": 1.0\n  },\n  "big": 18446744073709551616\n}\n'
    added = docker.add(text, RUNTIME)
    block = f',\n  "runtimes": {{\n    "cgpu": {{\n      "path": "{RUNTIME}"\n    }}\n  }}\n}}\n'
    assert added == text.removesuffix("\n}\n") + block
    assert docker.remove(added) == text
    assert docker.remove(docker.add("", RUNTIME)) == ""


def test_docker_default_runtime_is_not_pulled_away() -> None:
    """The runtime is not removed while new containers use it by default."""
    added = docker.add('{"default-runtime": "cgpu"}', RUNTIME)
    with pytest.raises(CgpuError, match="default-runtime: cgpu: set another one"):
        docker.remove(added)


def test_a_moved_runtime_is_updated() -> None:
    """Adding with another path changes the path, once."""
    for engine in (docker, containerd, podman):
        again = engine.add(engine.add("", "/old"), RUNTIME)
        assert again == engine.add("", RUNTIME)


TOML = [
    (containerd, ""),
    (containerd, "# only words\n"),
    (containerd, V2),
    (containerd, V2.removesuffix("\n")),
    (containerd, V2 + '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\nruntime_type = "x"\n'),
    (containerd, 'disabled_plugins = ["a"]\n[plugins.cri]\n'),
    (containerd, "version = 3\r\n"),
    (containerd, "version = 4\n"),
    (podman, ""),
    (podman, ENGINE),
    (podman, ENGINE + "[engine.runtimes]\nrunc = ['/r'] # mine\n\n[network]\n"),
    (podman, ENGINE + "[ engine . runtimes ] # here"),
]


@pytest.mark.parametrize(("engine", "text"), TOML)
def test_toml_add_and_remove(engine: ModuleType, text: str) -> None:
    """Adding keeps the file's every character and meaning; removing gives the very same text back."""
    added = engine.add(text, RUNTIME)
    lines = iter(added.splitlines())
    assert all(line in lines for line in text.splitlines())
    assert engine.add(added, RUNTIME) == added
    assert engine.remove(added) == text
    assert engine.remove(text) == text


PADDING = st.text(st.sampled_from("ab #=.[]\"'\n\r\t{}1")).filter(
    lambda text: "\r" not in text.replace("\r\n", "")
)


@pytest.mark.parametrize("engine", [containerd, podman])
@given(PADDING)
def test_any_text_is_kept_or_refused(engine: ModuleType, text: str) -> None:
    """Any text is refused as no TOML, or comes back the same after adding and removing."""
    try:
        added = engine.add(text, RUNTIME)
    except CgpuError:
        return
    before, after = tomllib.loads(text), tomllib.loads(added)
    assert {**after, **before} | {"version": 0, "plugins": 0, "engine": 0} == {
        **after,
        "version": 0,
        "plugins": 0,
        "engine": 0,
    }
    assert engine.remove(added) == text


@pytest.mark.parametrize(
    ("version", "plugin"),
    [(None, "cri"), (1, "cri"), (2, "io.containerd.grpc.v1.cri"), (3, "io.containerd.cri.v1.runtime")],
)
def test_containerd_sections(version: int | None, plugin: str) -> None:
    """Each version of the file has its own name for the plugin that owns runtimes."""
    text = 'root = "/x"\n' if version is None else f"version = {version}\n"
    settings = tomllib.loads(containerd.add(text, RUNTIME))
    wanted = {"runtime_type": "io.containerd.runc.v2", "options": {"BinaryName": RUNTIME}}
    assert settings["plugins"][plugin]["containerd"]["runtimes"]["cgpu"] == wanted


def test_podman_joins_the_runtimes_that_are_there() -> None:
    """The runtime joins a table of runtimes, and makes one where there is none."""
    added = podman.add(ENGINE + "[engine.runtimes]\nrunc = ['/r']\n", RUNTIME)
    assert tomllib.loads(added)["engine"] == {
        "runtime": "crun",
        "runtimes": {"runc": ["/r"], "cgpu": [RUNTIME]},
    }
    assert tomllib.loads(podman.add("", RUNTIME)) == {"engine": {"runtimes": {"cgpu": [RUNTIME]}}}


@pytest.mark.parametrize(
    ("engine", "text", "message"),
    [
        (docker, "{", "daemon.json: "),
        (docker, "[]", "one JSON object is accepted"),
        (docker, '{"runtimes": []}', "runtimes: a list: an object is accepted"),
        (docker, '{"a": 1, "a": 2}', "appears twice"),
        (containerd, "version = 9", "version: 9: accepted are 1, 2, 3, 4"),
        (containerd, "version = ", "TOML is accepted"),
        (
            containerd,
            '[plugins.cri.containerd.runtimes.cgpu]\nruntime_type = "x"',
            "was not added by this command",
        ),
        (containerd, "plugins = {cri = {}}", "cannot be added"),
        (podman, "[engine.runtimes]\ncgpu = ['/x']", "was not added by this command"),
        (podman, "engine = {runtimes = {}}", "cannot be added"),
        (podman, "# >>> cgpu-runtime-config: added, do not edit\n", "is missing after"),
    ],
)
def test_what_cannot_be_edited_is_refused(engine: ModuleType, text: str, message: str) -> None:
    """A file that is broken, or says something else under our name, is refused and named."""
    with pytest.raises(CgpuError) as caught:
        engine.add(text, RUNTIME)
    assert message in str(caught.value)


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """Return a program to configure."""
    path = tmp_path / "cgpu-container-runtime"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("engine", ["docker", "containerd", "podman"])
def test_the_command(tmp_path: Path, runtime: Path, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command shows, adds, does nothing the second time, and removes; a file it made goes again."""
    config = tmp_path / "etc" / "settings"
    common = [engine, "--config", str(config), "--runtime", str(runtime)]
    assert main([*common, "--dry-run"]) == 0
    assert str(runtime) in capsys.readouterr().out
    assert not config.exists()
    assert main(common) == 0
    assert str(runtime) in config.read_text()
    assert "runtime cgpu added" in capsys.readouterr().out
    assert main(common) == 0
    assert "nothing to change" in capsys.readouterr().out
    assert main([*common, "--remove"]) == 0
    assert not config.exists()
    assert main([*common, "--remove"]) == 0


def test_the_first_original_is_kept(tmp_path: Path, runtime: Path) -> None:
    """A copy of the file as it was before the first change stays beside it; mode and link are kept."""
    target, link = tmp_path / "daemon.json", tmp_path / "link.json"
    target.write_text('{"debug": true}\n')
    target.chmod(0o640)
    link.symlink_to(target)
    for arguments in (["--runtime", str(runtime)], ["--remove"]):
        assert main(["docker", "--config", str(link), *arguments]) == 0
        assert (link.is_symlink(), target.stat().st_mode & 0o777) == (True, 0o640)
    backup = tmp_path / "daemon.json.before-cgpu"
    assert (backup.read_text(), backup.stat().st_mode & 0o777) == ('{"debug": true}\n', 0o640)
    assert json.loads(target.read_text()) == {"debug": True}
    assert sorted(path.name for path in tmp_path.iterdir() if path != runtime) == [
        "daemon.json",
        "daemon.json.before-cgpu",
        "link.json",
    ]


@pytest.mark.parametrize("path", ["relative", "/does/not/exist", "/etc/passwd"])
def test_a_runtime_that_is_no_program(tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the absolute path of a program is written into settings."""
    assert main(["docker", "--config", str(tmp_path / "d"), "--runtime", path]) == 1
    assert capsys.readouterr().err.startswith(f"cgpu-runtime-config: --runtime {path}: the absolute path")
    assert not (tmp_path / "d").exists()


def test_a_broken_file_is_left_alone(
    tmp_path: Path, runtime: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be read is named and not touched."""
    config = tmp_path / "daemon.json"
    for raw in (b"{", b"\xff"):
        config.write_bytes(raw)
        assert main(["docker", "--config", str(config), "--runtime", str(runtime)]) == 1
        assert capsys.readouterr().err.count("\n") == 1
        assert config.read_bytes() == raw
