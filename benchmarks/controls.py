# SPDX-License-Identifier: Apache-2.0
"""Cost of the table of judged controls for each NV_ESC_RM_CONTROL: one search, in both engines.

`python -m benchmarks.controls [ROUNDS]` prints nanoseconds for each look-up: of known ones in mixed order, of
one of the firmware's, which is looked for twice, and of an unknown one. Needs a compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KMOD = HERE.parent / "kmod"


def main() -> None:
    compiler = shutil.which("cc") or sys.exit("cc: not found; apt install gcc")
    with tempfile.TemporaryDirectory() as name:
        gen, program = Path(name) / "gen", Path(name) / "controls"
        subprocess.run([sys.executable, "-I", KMOD / "abi" / "generate.py", gen], check=True)
        for maker, source in (("config_defaults", "config/schema.json"), ("slice_attributes", "slice.py")):
            made = [KMOD / "abi" / f"{maker}.py", HERE.parent / "cgpu" / source, gen]
            subprocess.run([sys.executable, "-I", *made], check=True)
        sources = [HERE / "controls.c", *sorted((KMOD / "core").glob("*/*.c")), gen / "nv_abi.c"]
        folders = [KMOD / "core", KMOD / "core" / "include", KMOD / "probe", gen]
        include = [word for folder in folders for word in ("-iquote", folder)]
        subprocess.run([compiler, "-std=gnu11", "-O2", *include, *sources, "-o", program], check=True)
        subprocess.run([program, *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
