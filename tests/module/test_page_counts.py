# SPDX-License-Identifier: Apache-2.0
"""Who has which page of a card: random histories on the host, beside a model of pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.build import SANITIZE, WARNINGS, run, tool
from tests.module.test_live import HERE, MODULE, check
from tests.vm.harness.counts import count

STEPS = 1500
SEEDS = range(1, count(6, 200))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the model with the module's file, under AddressSanitizer and UBSan."""
    output = tmp_path_factory.mktemp("counts") / "page_counts"
    core = MODULE.parent / "core"
    folders = (
        HERE / "shim",
        MODULE,
        core,
        core / "include",
        MODULE.parent / "build/gen",
        HERE.parent / "core/bench",
    )
    flags = ["-std=gnu11", "-g", "-O1", *WARNINGS, *SANITIZE, *(f"-I{folder}" for folder in folders)]
    run(
        [
            tool("clang"),
            *flags,
            str(HERE / "page_counts.c"),
            str(MODULE / "probes/page_counts.c"),
            "-o",
            str(output),
        ]
    )
    return output


@pytest.mark.parametrize("seed", SEEDS)
def test_pages_are_their_owners(program: Path, seed: int) -> None:
    """Each page is counted once, by its owner, within its limit, and until it is freed by whomever."""
    check(program, str(seed), str(STEPS))


@pytest.mark.parametrize("seed", SEEDS)
def test_pages_of_many_removed_containers_keep_no_place(program: Path, seed: int) -> None:
    """After a thousand containers that each left a page, a new one gets its pages."""
    check(program, str(seed), "1000", "crowd")
