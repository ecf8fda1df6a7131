# SPDX-License-Identifier: Apache-2.0
"""What all editors do alike: files that come and go, engines that are not there, files that are wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.runtime_config.engines.engine import Desired
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.files import MAX_BYTES
from tests.runtime_config.nodes import CONFIG_TOML, DAEMON_JSON, DEFAULT, DESIRED, MAIN, OLD, RUNTIME, Machine


@pytest.mark.parametrize("desired", [DESIRED, DEFAULT])
@pytest.mark.parametrize("before", [None, "", "\n", "# words"])
@pytest.mark.parametrize("name", list(MAIN))
def test_no_file_and_an_empty_one_are_told_apart(
    machine: Machine, name: str, before: str | None, desired: Desired
) -> None:
    """A file that was not there goes again, one that was empty stays empty; twice is like once."""
    path = MAIN[name]
    if name == "docker" and before and before.strip():
        before = "{ }"
    if before is not None:
        machine.write(path, before)
    was = machine.state()
    editor = machine.editor(name, OLD)
    machine.add(editor, desired)
    assert any(str(RUNTIME).encode() in content for content in machine.state().values())
    assert editor.plan_add(machine.root, desired) == []
    machine.remove(editor)
    assert machine.state() == was
    assert list(editor.plan_remove(machine.root)) == []


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_machine_without_the_engine(machine: Machine, name: str) -> None:
    """An engine that is not there is not present, has nothing to remove or release, and passes its check."""
    editor = machine.editor(name)
    assert not editor.is_present(machine.root)
    assert list(editor.plan_remove(machine.root)) == []
    assert list(editor.plan_release(machine.root)) == []
    editor.check(machine.root)


@pytest.mark.parametrize("name", list(MAIN))
def test_present(machine: Machine, name: str) -> None:
    """An engine whose program is there is present."""
    assert machine.editor(name, OLD).is_present(machine.root)


def test_settings_make_an_engine_present(machine: Machine) -> None:
    """Settings alone do, where only this engine has them; containerd with CRI switched off is not present."""
    machine.write(DAEMON_JSON, "{}")
    assert machine.editor("docker").is_present(machine.root)
    machine.write(CONFIG_TOML, 'disabled_plugins = ["cri"]\n')
    assert not machine.editor("containerd", "1.6.20").is_present(machine.root)
    machine.write(CONFIG_TOML, "version = 2\n")
    assert machine.editor("containerd").is_present(machine.root)


@pytest.mark.parametrize("name", list(MAIN))
def test_reloading_ends_no_container(machine: Machine, name: str) -> None:
    """No engine's reload stops containers."""
    assert not machine.editor(name).reload(machine.root).stops_containers


@pytest.mark.parametrize("name", list(MAIN))
@pytest.mark.parametrize("wrong", ["latin", "large", "pipe", "folder", "dangling", "outside", "broken"])
def test_wrong_files(machine: Machine, tmp_path: Path, name: str, wrong: str) -> None:
    """Each is refused in one line that names the file, and nothing is written."""
    path = MAIN[name]
    place = machine.write(path, b"\xff" if wrong == "latin" else b"[{")
    if wrong == "large":
        os.truncate(place, MAX_BYTES + 1)
    elif wrong not in ("latin", "broken"):
        place.unlink()
        (tmp_path / "outside").write_text("")
        make: dict[str, Callable[[], None]] = {
            "pipe": lambda: os.mkfifo(place),
            "folder": place.mkdir,
            "dangling": lambda: place.symlink_to("nothing"),
            "outside": lambda: place.symlink_to(tmp_path / "outside"),
        }
        make[wrong]()
    with pytest.raises(CgpuError) as caught:
        machine.editor(name, OLD).plan_add(machine.root, DESIRED)
    message = str(caught.value)
    assert place.name in message or "crio.conf" in message
    assert "expected" in message or wrong in ("dangling", "outside")
    assert not (tmp_path / "outside").exists() or (tmp_path / "outside").read_text() == ""


@pytest.mark.parametrize("runtime", ["cgpu-container-runtime", "/usr/lib/\udcff", "/a\nb"])
def test_a_path_that_cannot_be_written(machine: Machine, runtime: str) -> None:
    """A relative path, one that is no text, and one with a line break are refused."""
    desired = Desired(Path(runtime))
    for name in MAIN:
        with pytest.raises(CgpuError, match="expected the absolute path of cgpu-container-runtime"):
            machine.editor(name, OLD).plan_add(machine.root, desired)
