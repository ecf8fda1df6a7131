# SPDX-License-Identifier: Apache-2.0
"""Write the commands of a bundle, which kmod/start runs: launchers.py OUTDIR.

Each puts the bundle's folder in front of the standard library, and nothing else: no site packages, no PYTHON
variables, no folder of the caller's. cgpu-hook is in C.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

TEXT = """#!python3 -IS
import sys
sys.path.insert(0, sys.prefix + "/lib/bundle")
from {module} import {function}
sys.exit({function}())
"""


def main(target: Path) -> None:
    """Write one file for each command of the distribution."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in distribution("opencgpu").entry_points:
        if entry.name == "cgpu-hook":
            continue
        made = target / entry.name
        made.write_text(TEXT.format(module=entry.module, function=entry.attr))
        made.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
