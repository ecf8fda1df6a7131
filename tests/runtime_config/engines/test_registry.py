# SPDX-License-Identifier: Apache-2.0
"""Each engine of the registry: what all have alike, and the doctor's checks of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install.node.facts import settings, software
from cgpu.install.node.facts.settings import Entry
from cgpu.runtime_config.engines.engine import Desired
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.files import MAX_BYTES
from tests.runtime_config.engines.nodes import (
    CONFIG_TOML,
    DAEMON_JSON,
    DEFAULT,
    DESIRED,
    MAIN,
    OLD,
    RUNTIME,
    Machine,
)


@pytest.mark.parametrize("name", list(MAIN))
def test_the_doctor_reads_what_is_written(machine: Machine, name: str) -> None:
    """Each engine reads the runtime and the default where it has written them."""
    machine.add(machine.engine(name, OLD[name]), DEFAULT)
    (entry,) = (one for one in settings.gather(machine.root) if one.runtime is not None)
    default = None if ENGINES[name].is_runtime else "cgpu"
    assert entry == Entry(name, entry.file, entry.runtime, default)
    assert (entry.runtime or "").startswith(str(RUNTIME))


@pytest.mark.parametrize(
    "name", [name for name, engine in ENGINES.items() if engine.program and not engine.is_part]
)
def test_the_doctor_knows_the_program(machine: Machine, name: str) -> None:
    """Each engine whose program is installed is one that the doctor checks."""
    program = machine.write(f"usr/bin/{ENGINES[name].program}", "")
    program.chmod(0o755)
    assert [one.name for one in software.gather(machine.root, ()).engines] == [name]


@pytest.mark.parametrize("desired", [DESIRED, DEFAULT])
@pytest.mark.parametrize("before", [None, "", "\n", "# words"])
@pytest.mark.parametrize("name", list(MAIN))
def test_no_file_and_an_empty_one_are_told_apart(
    machine: Machine, name: str, before: str | None, desired: Desired
) -> None:
    """A file that was not there is removed, an empty one is empty again; a second edit changes nothing."""
    path = MAIN[name]
    if name == "docker" and before and before.strip():
        before = "{ }"
    if before is not None:
        machine.write(path, before)
    was = machine.state()
    engine = machine.engine(name, OLD[name])
    assert engine.is_present(machine.root)
    machine.add(engine, desired)
    assert any(str(RUNTIME).encode() in content for content in machine.state().values())
    assert engine.plan_add(machine.root, desired) == []
    machine.remove(engine)
    assert machine.state() == was
    assert list(engine.plan_remove(machine.root)) == []


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_machine_without_the_engine(machine: Machine, name: str) -> None:
    """An engine that is not there is not present, has nothing to remove or release, and passes its check."""
    engine = machine.engine(name)
    assert not engine.is_present(machine.root)
    assert list(engine.plan_remove(machine.root)) == []
    assert list(engine.plan_release(machine.root)) == []
    engine.check(machine.root)


def test_settings_make_an_engine_present(machine: Machine) -> None:
    """Settings alone do, where only this engine has them; containerd with CRI switched off is not present."""
    machine.write(DAEMON_JSON, "{}")
    assert machine.engine("docker").is_present(machine.root)
    machine.write(CONFIG_TOML, 'disabled_plugins = ["cri"]\n')
    assert not machine.engine("containerd", "1.6.20").is_present(machine.root)
    machine.write(CONFIG_TOML, "version = 2\n")
    assert machine.engine("containerd").is_present(machine.root)


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
        machine.engine(name, OLD[name]).plan_add(machine.root, DESIRED)
    message = str(caught.value)
    assert place.name in message or "crio.conf" in message
    assert "expected" in message or wrong in ("dangling", "outside")
    assert not (tmp_path / "outside").exists() or (tmp_path / "outside").read_text() == ""


@pytest.mark.parametrize("name", list(MAIN))
@pytest.mark.parametrize("runtime", ["cgpu-container-runtime", "/usr/lib/\udcff", "/a\nb"])
def test_a_path_that_cannot_be_written(machine: Machine, name: str, runtime: str) -> None:
    """A relative path, one that is no text, and one with a line break are refused."""
    with pytest.raises(CgpuError, match="expected the absolute path of cgpu-container-runtime"):
        machine.engine(name, OLD[name]).plan_add(machine.root, Desired(Path(runtime)))
