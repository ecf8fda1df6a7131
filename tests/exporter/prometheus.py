# SPDX-License-Identifier: Apache-2.0
"""Unpack Debian's Prometheus and run its checks: python -m tests.exporter.prometheus [PYTEST ARGUMENTS].

The package is unpacked from the archive into kmod/build/prometheus, once, and never installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "kmod" / "build" / "prometheus"
PROGRAMS = FOLDER / "usr" / "bin"
CHECKS = Path(__file__).with_name("check_prometheus.py")


def unpack() -> None:
    """Have the programs. Raises SystemExit where the archive cannot be reached."""
    if (PROGRAMS / "prometheus").exists():
        return
    print("test-metrics: unpacking Prometheus", flush=True)
    with tempfile.TemporaryDirectory() as fetched:
        Path(fetched).chmod(0o755)
        done = subprocess.run(["apt-get", "-qq", "download", "prometheus"], cwd=fetched, check=False)
        if done.returncode != 0:
            sys.exit(
                "test-metrics: Debian's archive does not have the package prometheus; run: apt-get update"
            )
        (package,) = Path(fetched).glob("prometheus_*.deb")
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
