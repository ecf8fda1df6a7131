# SPDX-License-Identifier: Apache-2.0
"""`make demo`, as README says it."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.integration.images import ROOT

SHARE = re.compile(r"^  (light|heavy): weight [12], (\d+) % of the GPU time$", re.MULTILINE)
# The demo has a /run of its own.
ALONE = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && "


@pytest.mark.slow
@pytest.mark.root
def test_demo() -> None:
    """The demo comes to its end, divides the time as it says, and leaves nothing."""
    # As typed by a person: below another make it also says which directory it leaves.
    environment = {name: text for name, text in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", f"{ALONE}exec make demo"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    shares = {name: int(percent) for name, percent in SHARE.findall(done.stdout)}
    # As near as the demo itself wants them: other programs of the machine take some of the time.
    assert shares["light"] == pytest.approx(33, abs=10)
    assert 99 <= sum(shares.values()) <= 101
    assert "no container directory is left; 15109 MiB of the card are free" in done.stdout
    assert done.stdout.splitlines()[-1] == "Done."
