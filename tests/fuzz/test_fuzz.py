# SPDX-License-Identifier: Apache-2.0
"""Runs each fuzz target for CGPU_FUZZ_SECONDS (5 unless told), from the inputs in corpus.tar.xz on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.build import SANITIZE, TARGETS, build_core, build_target, fuzz, require_fuzzer
from tests.fuzz.corpus import MOST_BYTES, size, target_name, unpack


def seconds() -> int:
    return int(os.environ.get("CGPU_FUZZ_SECONDS", "5"))


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Compile the core for fuzzing once; return the generated tables' folder and the objects."""
    output = tmp_path_factory.mktemp("fuzz")
    require_fuzzer(output)
    return build_core(output, SANITIZE)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("target", TARGETS, ids=[target.stem for target in TARGETS])
@pytest.mark.timeout(0)
def test_no_finding(target: Path, core: tuple[Path, list[str]], corpus: Path, tmp_path: Path) -> None:
    """Inputs that libFuzzer makes up, and those that it kept, do no harm."""
    program = build_target(target, core, tmp_path, SANITIZE)
    done = fuzz(program, corpus / target_name(target.stem), tmp_path / "found", seconds(), tmp_path)
    assert done.returncode == 0, done.stderr[-6000:]


def test_corpus_is_small_and_of_targets(corpus: Path) -> None:
    """Every folder of inputs belongs to a target, and all of them together are small."""
    assert {path.name for path in corpus.iterdir()} == {target_name(target.stem) for target in TARGETS}
    assert size(corpus) <= MOST_BYTES
