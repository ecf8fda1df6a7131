# SPDX-License-Identifier: Apache-2.0
"""Runs each fuzz target for CGPU_FUZZ_SECONDS (5 unless told)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.core.build import flags, generated, run, sources, tool

HERE = Path(__file__).resolve().parent
TARGETS = sorted(HERE.glob("fuzz_*.c"))
FUZZER = ["-fsanitize=address,undefined,fuzzer", "-fno-sanitize-recover=all"]


def seconds() -> int:
    return int(os.environ.get("CGPU_FUZZ_SECONDS", "5"))


@pytest.fixture(scope="session")
def fuzz_objects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Compile the core for fuzzing once; return the generated tables' folder and the objects."""
    output = tmp_path_factory.mktemp("fuzz")
    probe = output / "probe.c"
    probe.write_text(
        "int LLVMFuzzerTestOneInput(const char *data, unsigned long bytes)\n{ return !data && bytes; }\n"
    )
    linked = subprocess.run(
        [tool("clang"), *FUZZER, str(probe), "-o", str(output / "probe")],
        capture_output=True,
        check=False,
        timeout=120,
    )
    if linked.returncode:
        pytest.skip("clang has no libFuzzer (libclang-rt-14-dev has it)")
    gen = generated(output / "gen")
    objects = output / "objects"
    objects.mkdir()
    inline = ["-fsanitize=address,undefined,fuzzer-no-link", "-fno-sanitize-recover=all"]
    command = [tool("clang"), *flags(gen), *inline, "-c", *sources(gen)]
    done = subprocess.run(command, cwd=objects, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    return gen, sorted(map(str, objects.glob("*.o")))


@pytest.mark.parametrize("target", TARGETS, ids=[target.stem for target in TARGETS])
@pytest.mark.timeout(0)
def test_no_finding(target: Path, fuzz_objects: tuple[Path, list[str]], tmp_path: Path) -> None:
    """Inputs that libFuzzer makes up do no harm to the core."""
    gen, objects = fuzz_objects
    program = tmp_path / target.stem
    run([tool("clang"), *flags(gen), *FUZZER, str(target), *objects, "-o", str(program)])
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    limits = [f"-max_total_time={seconds()}", "-len_control=0", "-max_len=1024", "-rss_limit_mb=2048"]
    done = subprocess.run(
        [str(program), *limits, f"-artifact_prefix={tmp_path}/", str(corpus)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds() + 120,
    )
    assert done.returncode == 0, done.stderr[-6000:]
