# SPDX-License-Identifier: Apache-2.0
"""Runs each fuzz target for CGPU_FUZZ_SECONDS (5 unless told), from the inputs in tests/fuzz/corpus on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.build import (
    CORPUS,
    SANITIZE,
    TARGETS,
    build_core,
    build_target,
    corpus_of,
    fuzz,
    require_fuzzer,
)
from tests.fuzz.campaign import MOST_BYTES


def seconds() -> int:
    return int(os.environ.get("CGPU_FUZZ_SECONDS", "5"))


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Compile the core for fuzzing once; return the generated tables' folder and the objects."""
    output = tmp_path_factory.mktemp("fuzz")
    require_fuzzer(output)
    return build_core(output, SANITIZE)


@pytest.mark.parametrize("target", TARGETS, ids=[target.stem for target in TARGETS])
@pytest.mark.timeout(0)
def test_no_finding(target: Path, core: tuple[Path, list[str]], tmp_path: Path) -> None:
    """Inputs that libFuzzer makes up, and those that it kept, do no harm to the core."""
    program = build_target(target, core, tmp_path, SANITIZE)
    done = fuzz(program, corpus_of(target.stem), tmp_path / "found", seconds(), tmp_path)
    assert done.returncode == 0, done.stderr[-6000:]


def test_corpus_is_small_and_of_targets() -> None:
    """Every folder of inputs belongs to a target, and all of them together are small."""
    assert {path.name for path in CORPUS.iterdir()} == {corpus_of(target.stem).name for target in TARGETS}
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) <= MOST_BYTES
