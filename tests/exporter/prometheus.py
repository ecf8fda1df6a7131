# SPDX-License-Identifier: Apache-2.0
"""Unpack Debian's Prometheus and run its checks: python -m tests.exporter.prometheus [PYTEST ARGUMENTS].

The package is unpacked from the archive into kmod/build/prometheus, once, and never installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "kmod" / "build" / "prometheus"
PROGRAMS = FOLDER / "usr" / "bin"
CHECKS = Path(__file__).with_name("check_prometheus.py")


def unpack(packages: Iterable[str] = ("prometheus",)) -> None:
    """Have packages of Debian's in the folder. Raises SystemExit where the archive cannot be reached."""
    for name in packages:
        # Each package has a folder for its copyright.
        if not (FOLDER / "usr" / "share" / "doc" / name).exists():
            print(f"test-metrics: unpacking {name}", flush=True)
            unpack_one(name)


def unpack_one(name: str) -> None:
    with tempfile.TemporaryDirectory() as fetched:
        Path(fetched).chmod(0o755)
        done = subprocess.run(["apt-get", "-qq", "download", name], cwd=fetched, check=False)
        if done.returncode != 0:
            sys.exit(f"test-metrics: Debian's archive does not have the package {name}; run: apt-get update")
        (package,) = Path(fetched).glob(f"{name}_*.deb")
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "--extract", str(package), str(FOLDER)], check=True)


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("test-metrics: needs root; run: sudo make test-metrics")
    unpack()
    os.environ["CGPU_PROMETHEUS"] = str(PROGRAMS)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", str(CHECKS), *sys.argv[1:]])


if __name__ == "__main__":
    main()
