# SPDX-License-Identifier: Apache-2.0
"""Parts of the module beside a model of pages, in random histories on the host.

live_parts: live parts of a mapping of managed memory. page_counts: owners of a card's pages. mappings: files
that memory is mapped by.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.build import SANITIZE, WARNINGS, run, tool
from tests.vm.harness.counts import count

HERE = Path(__file__).resolve().parent
KMOD = HERE.parent.parent / "kmod"
SOURCES = {
    "live_parts": "probes/live.c",
    "page_counts": "probes/page_counts.c",
    "mappings": "mappings/table.c",
}
FOLDERS = (
    HERE / "shim",
    HERE.parent / "core" / "bench",
    *(KMOD / folder for folder in ("module", "core", "core/include", "build/gen")),
)
SEEDS = {
    "live_parts": range(count(12, 400)),
    "page_counts": range(1, count(6, 200)),
    "mappings": range(count(6, 200)),
}
# The program, its steps, and the special words of its histories.
HISTORIES = {
    "what_is_live_is_known": ("live_parts", "3000"),
    "without_memory_it_stays_charged": ("live_parts", "3000", "none"),
    "pages_are_their_owners": ("page_counts", "1500"),
    "pages_of_many_removed_containers_keep_no_place": ("page_counts", "1000", "crowd"),
    "mappings_are_found": ("mappings", "2000"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build each model with the module's file, under AddressSanitizer and UBSan."""
    output = tmp_path_factory.mktemp("models")
    flags = ["-std=gnu11", "-g", "-O1", *WARNINGS, *SANITIZE, *(f"-I{folder}" for folder in FOLDERS)]
    for name, source in SOURCES.items():
        sources = [str(HERE / f"{name}.c"), str(KMOD / "module" / source)]
        run([tool("clang"), *flags, *sources, "-o", str(output / name)])
    return {name: output / name for name in SOURCES}


@pytest.mark.parametrize(
    ("history", "seed"), [(name, seed) for name, words in HISTORIES.items() for seed in SEEDS[words[0]]]
)
def test_histories(programs: dict[str, Path], history: str, seed: int) -> None:
    """The module has the model's records after each step."""
    name, *words = HISTORIES[history]
    run([str(programs[name]), str(seed), *words])


def test_parts_have_a_bound(programs: dict[str, Path]) -> None:
    """A mapping cut into more parts than are kept stays charged for what lies behind the last one."""
    run([str(programs["live_parts"]), "1", "0", "bound"])


def test_many_mappings_end_in_steps_of_their_number(programs: dict[str, Path]) -> None:
    """Each mapping that ends is found in few steps, whatever else its client has, also at the same place."""
    run([str(programs["mappings"]), "1", "16000", "many"])
