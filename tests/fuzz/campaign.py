# SPDX-License-Identifier: Apache-2.0
"""Runs every fuzz target for a while, and keeps of what it found the least that reaches as much."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.build import LIMITS, SANITIZE, TARGETS, build_core, build_target, fuzz
from tests.fuzz.corpus import ARCHIVE, MOST_BYTES, pack, size, target_name, unpack


def minimise(program: Path, corpus: Path, found: Path, output: Path) -> None:
    """Put the inputs that together reach all that is reached in place of a target's old ones."""
    output.mkdir()
    old = [str(corpus)] if corpus.is_dir() else []
    command = [str(program), "-merge=1", *LIMITS, str(output), *old, str(found)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=3600)
    shutil.rmtree(corpus, ignore_errors=True)
    shutil.copytree(output, corpus)


def main(seconds: int) -> int:
    """Fuzz, merge, and return the exit status; inputs that end a target are left in the current folder."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        base = Path(folder)
        inputs = unpack(base / "corpus")
        core = build_core(base, SANITIZE)
        for target in TARGETS:
            program = build_target(target, core, base, SANITIZE)
            corpus, found = inputs / target_name(target.stem), base / f"{target.stem}-found"
            done = fuzz(program, corpus, found, seconds, Path.cwd())
            if done.returncode:
                print(f"{target.stem}: {done.stderr[-6000:]}", file=sys.stderr)
                return 1
            minimise(program, corpus, found, base / f"{target.stem}-merged")
            print(f"{target.stem}: {len(list(corpus.iterdir()))} inputs", flush=True)
        total = size(inputs)
        pack(inputs)
    if total > MOST_BYTES:
        print(
            f"{ARCHIVE}: {total} bytes of inputs, more than {MOST_BYTES}: merge with a smaller -max_len",
            file=sys.stderr,
        )
    return int(total > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
