# SPDX-License-Identifier: Apache-2.0
"""The cards that --simulate takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon import simulate


@pytest.mark.parametrize("cards", ["T4", "V100:2", "A10=1024", "H200=143771:32", "A100-80GB:2/mig=1"])
def test_cards(cards: str) -> None:
    """The forms of the command line; capitals or not is the same."""
    assert simulate.check_cards(cards) == cards
    assert simulate.check_cards(cards.lower()) == cards


@pytest.mark.parametrize(
    "cards", ["", "T4:0", "T4:33", "T4=0", "T4=-1", "T4:2=3", "T4\n", "4T", "T4=1:", "T4/MIG=0"]
)
def test_bad_cards(cards: str) -> None:
    """Anything else is refused with what is expected."""
    with pytest.raises(CgpuError, match="expected MODEL"):
        simulate.check_cards(cards)


@pytest.mark.parametrize(
    ("model", "near"),
    [("T5", "did you mean T4? "), ("a100-40gb", "did you mean A100 or A100-80GB? "), ("K80", "")],
)
def test_unknown_models(model: str, near: str) -> None:
    """An unknown model is refused by its name, with the known one that is like it."""
    with pytest.raises(CgpuError) as refused:
        simulate.check_cards(f"{model}:2")
    assert str(refused.value) == f"--simulate {model}: there is no such model; {near}all models: cgpud --help"


@pytest.mark.parametrize(
    ("program", "reason"),
    [("/bin/false", "exit status 1"), ("/etc/passwd", "Permission"), ("/none", "build it")],
)
def test_models_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch, program: str, reason: str) -> None:
    """A cgpu-sim that does not run is one line, as any fault of a start."""
    simulate.models.cache_clear()
    monkeypatch.setattr(simulate, "PROGRAM", Path(program))
    with pytest.raises(CgpuError, match=reason):
        simulate.check_cards("T4")
