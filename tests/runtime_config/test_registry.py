# SPDX-License-Identifier: Apache-2.0
"""What each engine of the registry has beside its file: golden texts, documents, the doctor's checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.install.facts import settings, software
from cgpu.install.facts.settings import Entry
from cgpu.runtime_config.engines.registry import ENGINES
from tests.runtime_config.nodes import DEFAULT, MAIN, OLD, RUNTIME, Machine
from tests.runtime_config.test_golden import GOLDEN

MANUAL = "docs/man/cgpu-runtime-config.8.md"


def test_names() -> None:
    """Each engine stands under its own name, in the order in which they are asked."""
    assert {name: engine.name for name, engine in ENGINES.items()} == {name: name for name in ENGINES}
    assert list(ENGINES) == ["docker", "containerd", "crio", "podman", "nvidia", "hooks"]


@pytest.mark.parametrize("name", list(MAIN))
def test_golden_texts(name: str) -> None:
    """Each engine with settings has a text of before, and what becomes of it."""
    befores = [path.name.removesuffix(".before.txt") for path in GOLDEN.glob(f"{name}-*.before.txt")]
    assert any((GOLDEN / f"{one}.{kind}.txt").exists() for one in befores for kind in ("after", "drop-in"))


@pytest.mark.parametrize("name", list(ENGINES))
def test_documents(repository: Path, name: str) -> None:
    """A document tells how each engine gets the runtime, and the manual page names the files that change."""
    pages = [path.read_text() for path in (repository / "docs").glob("*.md")]
    assert any(f"cgpu-runtime-config {name} " in page for page in pages)
    files = repository.joinpath(MANUAL).read_text().partition("# FILES")[2]
    assert any(place in files for place in ENGINES[name].settings_files or (f"**{name}**",))


@pytest.mark.parametrize("name", list(MAIN))
def test_the_doctor_reads_what_is_written(machine: Machine, name: str) -> None:
    """Each engine's own reader finds the runtime and the default where its editor has put them."""
    machine.add(machine.editor(name, OLD), DEFAULT)
    (entry,) = (one for one in settings.gather(machine.root) if one.runtime is not None)
    default = None if ENGINES[name].is_runtime else "cgpu"
    assert entry == Entry(name, entry.file, entry.runtime, default)
    assert (entry.runtime or "").startswith(str(RUNTIME))


@pytest.mark.parametrize("name", [name for name, engine in ENGINES.items() if engine.program])
def test_the_doctor_knows_the_program(machine: Machine, name: str) -> None:
    """Each engine whose program is installed is one that the doctor checks."""
    program = machine.write(f"usr/bin/{ENGINES[name].program}", "")
    program.chmod(0o755)
    assert [one.name for one in software.gather(machine.root, ()).engines] == [name]
