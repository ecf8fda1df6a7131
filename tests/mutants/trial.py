# SPDX-License-Identifier: Apache-2.0
"""One try of one mutant, on a layer of memory over a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant

SECONDS = 1500.0
# The layer, and a /run of its own, are mounts of this shell's and its children's alone.
STEPS = """
set -e
mount -t tmpfs tmpfs "$LAYER"
mkdir "$LAYER/upper" "$LAYER/work"
mount -t overlay overlay -o "lowerdir=$CHECKOUT,upperdir=$LAYER/upper,workdir=$LAYER/work" "$CHECKOUT"
mount -t tmpfs tmpfs /run
cd "$CHECKOUT"
git -c safe.directory="$CHECKOUT" apply --whitespace=nowarn "$PATCH" || exit 90
make --no-print-directory -s -C kmod -j2 all >/dev/null || exit 91
result=5
# pytest would put a test into the place that it has in its file. It returns 5 where it has run no test.
for test; do
	status=0
	.venv/bin/python -m pytest -x -q -p no:cacheprovider $OPTIONS "$test" || status=$?
	[ $status = 5 ] || result=$status
	[ $result = 0 ] || [ $result = 5 ] || break
done
exit $result
"""
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """How a try ended (caught, survived, not applied, not built, not run), by what, after how long."""

    state: str
    by: str
    seconds: float

    @property
    def caught(self) -> bool:
        return self.state == "caught"


def try_mutant(mutant: Mutant, checkout: Path, *, lane_test: bool) -> Verdict:
    """Apply a mutant to a prepared checkout and run its tests, in the order named, until one fails."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        layer = Path(folder) / "layer"
        layer.mkdir()
        patch = Path(folder) / "patch"
        patch.write_text(mutant.path.read_text().split("\n\n", 1)[1])
        environment = {
            **os.environ,
            "LAYER": str(layer),
            "CHECKOUT": str(checkout),
            "PATCH": str(patch),
            "OPTIONS": "-p tests.lanes.plugin --lane-test" if lane_test else "",
            "WERROR": "0",
        }
        tests = [name for name in mutant.tests if (checkout / name.split("::")[0]).exists()]
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", STEPS, "sh", *tests]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return Verdict("caught", "a hang", time.monotonic() - began)
    seconds = time.monotonic() - began
    failed = FAILED.search(done.stdout)
    if done.returncode == 1 and failed:
        return Verdict("caught", failed[1], seconds)
    states = {0: "survived", 5: "survived", 90: "not applied", 91: "not built"}
    if done.returncode not in (0, 5):
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-2000:])
    return Verdict(states.get(done.returncode, "not run"), "", seconds)
