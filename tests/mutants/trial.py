# SPDX-License-Identifier: Apache-2.0
"""One try of one mutant, on layers of memory over a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.mutant import Mutant

SECONDS = 1500.0  # for each name of tests
# The layer, and a /run of its own, are mounts of this shell's and its children's alone.
STEPS = """
set -e
layer=$FOLDER/layer
mkdir "$layer"
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/upper" "$layer/work"
mount -t overlay overlay -o "lowerdir=$CHECKOUT,upperdir=$layer/upper,workdir=$layer/work" "$CHECKOUT"
mount -t tmpfs tmpfs /run
cd "$CHECKOUT"
git -c safe.directory="$CHECKOUT" apply --allow-empty --whitespace=nowarn "$FOLDER/patch" || exit 90
make --no-print-directory -s -C kmod -j2 all >/dev/null || exit 91
build='from tests.vm.harness import kernels, node; node.build_engine(kernels.choose_kernel())'
case " $*" in *" tests/vm/"*) .venv/bin/python -c "$build" || exit 91 ;; esac
result=5
# pytest would put a test into the place that it has in its file. It returns 5 where it has run no test.
for test; do
	status=0
	timeout --foreground --kill-after=10 "$LIMIT" \
		.venv/bin/python -m pytest -x -q --color=no -o cache_dir="$FOLDER/cache" $OPTIONS "$test" || status=$?
	[ $status = 5 ] || result=$status
	[ $result = 0 ] || [ $result = 5 ] || break
done
exit $result
"""
STATES = {0: "survived", 5: "survived", 90: "not applied", 91: "not built", 124: "timed out"}


def try_mutant(mutant: Mutant, checkout: Path, *, lane_test: bool) -> tuple[str, str]:
    """Run a mutant's tests on a prepared checkout until one fails, and that one without the mutant, too.

    Return how that ended (caught, survived, or why neither can be said), and the test that failed.
    """
    options = "-p tests.lanes.plugin --lane-test" if lane_test else ""
    tests = [name for name in mutant.tests if (checkout / name.split("::")[0]).exists()]
    state, failed = run_tests(tests, checkout, mutant.path.read_text().split("\n\n", 1)[1], options)
    if state == "caught" and run_tests([failed], checkout, "", options)[0] != "survived":
        state = "fails without it, too"
    return state, failed


def run_tests(tests: list[str], checkout: Path, diff: str, options: str) -> tuple[str, str]:
    """Run tests on a layer with a diff, or none, until one fails. Return the state, and the failed test."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        (Path(folder) / "patch").write_text(diff)
        names = {"FOLDER": folder, "CHECKOUT": str(checkout), "OPTIONS": options, "LIMIT": str(SECONDS)}
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", STEPS, "sh", *tests]
        environment = os.environ | names | {"WERROR": "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        cache = Path(folder) / "cache/v/cache/lastfailed"
        failed = next(iter(json.loads(cache.read_text())), "") if cache.exists() else ""
    # A set-up that fails is no finding. A check after the test is one: of the kernel's log, for example.
    if failed and (f"\nFAILED {failed}" in done.stdout or "_ ERROR at teardown of " in done.stdout):
        return "caught", failed
    if done.returncode not in (0, 5):
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-2000:])
    return STATES.get(done.returncode, "not run"), ""
