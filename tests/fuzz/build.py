# SPDX-License-Identifier: Apache-2.0
"""Builds the fuzz targets: with sanitizers to look for faults, or with counters to see what is reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.build import flags, generated, run, sources, tool
from tests.integration.commands import Outcome, call

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The targets in the folder of that name include these programs' files.
PARSERS = tuple(ROOT / folder for folder in ("runtime_config/launcher", "hook"))
TARGETS = sorted(HERE.rglob("fuzz_*.c"))
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COUNT = ("-fprofile-instr-generate", "-fcoverage-mapping")
LIMITS = ("-len_control=0", "-max_len=512", "-rss_limit_mb=2048")


def require_fuzzer(output: Path) -> None:
    """Skip where clang comes without libFuzzer."""
    probe = output / "probe.c"
    probe.write_text(
        "int LLVMFuzzerTestOneInput(const char *data, unsigned long bytes)\n{ return !data && bytes; }\n"
    )
    linked = call([tool("clang"), "-fsanitize=fuzzer", probe, "-o", output / "probe"], timeout=120)
    if linked.returncode:
        pytest.skip("clang has no libFuzzer (libclang-rt-dev has it)")


def build_core(output: Path, extra: tuple[str, ...]) -> tuple[Path, list[str]]:
    """Compile the core for fuzzing; return the generated tables' folder and the objects."""
    gen = generated(output / "gen")
    objects = output / "objects"
    objects.mkdir()
    # Few objects of removed containers are enough that one stands for all: inputs are short.
    folds = "-DCORE_FOLDS_ABOVE=8u"
    command = [tool("clang"), *flags(gen), *extra, folds, "-fsanitize=fuzzer-no-link", "-c", *sources(gen)]
    run(command, objects)
    return gen, sorted(map(str, objects.glob("*.o")))


def build_target(target: Path, core: tuple[Path, list[str]], output: Path, extra: tuple[str, ...]) -> Path:
    program = output / target.stem
    gen, objects = core
    includes = [f"-I{folder}" for folder in PARSERS]
    command = [tool("clang"), *flags(gen), *includes, *extra, "-fsanitize=fuzzer", str(target), *objects]
    run([*command, "-o", str(program)])
    return program


def fuzz(program: Path, corpus: Path, found: Path, seconds: int, findings: Path) -> Outcome:
    """Run a target from its corpus on; new inputs go to found, an input that ends it to findings."""
    found.mkdir()
    limits = [*LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={findings}/"]
    inputs = [corpus] if corpus.is_dir() else []
    return call([program, *limits, found, *inputs], timeout=seconds + 300)
