# SPDX-License-Identifier: Apache-2.0
"""Record traces of NVIDIA's clients on simulated cards, for tests/trace.

`python -m tests.nvidia.record` writes them anew, as compressed files in tests/trace/real_library. What they
are is in their first line: note `origin`.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.nvidia import pypi
from tests.nvidia.archive import RELEASES
from tests.nvidia.clients import Cards, alone
from tests.nvidia.programs import ML
from tests.nvidia.software import PACKAGES
from tests.sim.support import BUILD

FOLDER = Path(__file__).resolve().parents[1] / "trace" / "real_library"
ORIGIN = "real library, simulated card"
CUDA = Path(__file__).parent / "cuda_program.py"
# Not those that fill the card, nor those that hand memory on by descriptors, which a replay has not.
STEPS = ("describe", "copies", "managed")


def programs() -> dict[str, list[str]]:
    """Return the command of each recording by its name."""
    python = ["/usr/bin/env", f"PYTHONPATH={pypi.clients()}", "/usr/bin/python3", "-c", ML]
    cuda = {f"cuda-{step}": ["/usr/bin/python3", str(CUDA), step] for step in STEPS}
    return {"nvidia-smi": ["nvidia-smi"], "nvidia-smi-q": ["nvidia-smi", "-q"], "nvidia-ml-py": python} | cuda


def record(cards: Cards, command: list[str], file: Path) -> None:
    """Record a command that must end well."""
    words: list[str | Path] = [
        BUILD / "cgpu-recorder",
        "-o",
        file,
        "--note",
        f"origin={ORIGIN}",
        "--",
        *command,
    ]
    done = cards.run(*words)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.text}")


def published(trace: str) -> str:
    """Return a trace that tells of the machine's kernel only which release it is."""
    header, rest = trace.split("\n", 1)
    fields = json.loads(header)
    fields["kernel"] = ".".join(fields["kernel"].split(".")[:2])
    return json.dumps(fields, separators=(",", ":")) + "\n" + rest


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "trace.jsonl"
        for release in RELEASES:
            with alone(release.version, packages=(*PACKAGES, "libcuda1")) as cards:
                for program, command in programs().items():
                    record(cards, command, file)
                    # Without a time in it, what is recorded alike is packed alike.
                    packed = gzip.compress(published(file.read_text()).encode(), mtime=0)
                    (FOLDER / f"{program}-{release.version}.jsonl.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
