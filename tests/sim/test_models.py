# SPDX-License-Identifier: Apache-2.0
"""The simulated models: cgpu-sim has the list, and other lists are the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cgpu.kmod.daemon import main as cgpud
from cgpu.kmod.daemon.simulate import PROGRAM, check_cards, models
from tests.integration.probe import step
from tests.integration.test_slice import SIZES
from tests.sim.conftest import Start
from tests.sim.support import listed


def test_commands_and_documents_name_the_models(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, their help, the quick start and the manual name the models of cgpu-sim."""
    assert tuple(listed()) == models()
    assert all(check_cards(model) == model for model in models())
    together = ", ".join(models())
    monkeypatch.setenv("COLUMNS", "200")
    assert f"serve simulated cards: {together}\n" in cgpud.parser().format_help()
    sizes = [f"{key} ({mib}{' MiB' if key == models()[0] else ''})" for key, (mib, _) in listed().items()]
    page = " ".join((repository / "docs/quickstart.md").read_text().split())
    assert f"knows the models {', '.join(sizes[:-1])} and {sizes[-1]}." in page
    usage = subprocess.run([PROGRAM], capture_output=True, text=True, check=False).stderr
    assert " or ".join(together.rsplit(", ", 1)) in usage


@pytest.mark.parametrize("model", [models()[0], models()[-1]])
def test_a_card_is_what_the_list_says(start: Start, model: str) -> None:
    """A card of a model has the name and memory of the list; MIB sets another size."""
    mib, name = listed()[model]
    for cards, size in ((model, mib), (f"{model}=1", 1)):
        seen = step(start(cards).probe("info"), "info")
        assert seen.fields["name"] == f'"{name}"'
        assert {seen.number(key) for key in ("free", *SIZES)} == {size << 20}
