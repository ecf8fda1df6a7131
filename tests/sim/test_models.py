# SPDX-License-Identifier: Apache-2.0
"""The simulated models: cgpu-sim has the list, and what others say of it is the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cgpu.kmod.daemon import main as cgpud
from cgpu.kmod.daemon.simulate import MODELS, check_cards
from tests.sim.conftest import Start
from tests.sim.support import BUILD, fields

CARDS = [
    ("T4", 15109, "Tesla T4"),
    ("V100", 16130, "Tesla V100-SXM2-16GB"),
    ("A10", 23028, "NVIDIA A10"),
    ("H200", 143771, "NVIDIA H200"),
]


def listed() -> dict[str, tuple[int, str]]:
    """Return MIB and name of each model."""
    command = [str(BUILD / "cgpu-sim"), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {key: (int(mib), name) for key, mib, name in rows}


def test_commands_and_documents_name_the_models(repository: Path) -> None:
    """cgpud, cgpu trace, their help, the manual and the fake driver name the models of the simulated card."""
    assert tuple(listed()) == MODELS
    assert listed() == {model: (mib, name) for model, mib, name in CARDS}
    assert all(check_cards(model) == model for model in MODELS)
    together = ", ".join(MODELS)
    assert f"serve simulated cards: {together}\n" in cgpud.parser().format_help()
    assert f"({together};" in (repository / "docs/commands/cgpu-trace.md").read_text()
    assert f"the card: {together} " in (repository / "cgpu/trace/main.py").read_text()
    assert " or ".join(together.rsplit(", ", 1)) in (repository / "tests/vm/fake_driver/card.c").read_text()


@pytest.mark.parametrize(("model", "mib", "name"), [*CARDS, ("T4=1", 1, "Tesla T4")])
def test_a_card_is_what_the_list_says(start: Start, model: str, mib: int, name: str) -> None:
    """A card of each model has its name, and its memory by every question; MIB sets another size."""
    sim = start(model)
    (line,) = sim.lines("info=all")
    assert f'name="{name}"' in line
    for key in ("total", "free", "v1_total", "v2_total", "heap_total", "region_total"):
        assert fields(line)[key] == str(mib << 20)
    sim.stop()
