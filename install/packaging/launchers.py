# SPDX-License-Identifier: Apache-2.0
"""Write the commands of the Debian and rpm packages, or of a bundle: launchers.py OUTDIR [PYTHON|--bundle].

Each starts the distribution's Python with the package's folder in front of the standard library, and with
nothing else: no site packages, no PYTHON variables, no folder of the caller's. cgpu-hook is in C. In a
bundle kmod/start does that.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

FOLDER = '"/usr/lib/opencgpu"'
FOLDER_OF_BUNDLE = 'sys.prefix + "/lib/bundle"'
BUNDLE = "--bundle"
PYTHON = "/usr/bin/python3"
TEXT = """#!{python} -IS
import sys
sys.path.insert(0, {folder})
from {module} import {function}
sys.exit({function}())
"""


def main(target: Path, python: str = PYTHON) -> None:
    """Write one file for each command of the distribution."""
    target.mkdir(parents=True, exist_ok=True)
    folder = FOLDER
    if python == BUNDLE:
        python, folder = "python3", FOLDER_OF_BUNDLE
    for entry in distribution("opencgpu").entry_points:
        if entry.name == "cgpu-hook":
            continue
        made = target / entry.name
        made.write_text(TEXT.format(python=python, folder=folder, module=entry.module, function=entry.attr))
        made.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
