# SPDX-License-Identifier: Apache-2.0
"""`make demo`, as README says it."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.integration.images import ROOT

SHARE = re.compile(r"^  (light|heavy): weight [12], (\d+) % of the GPU time$", re.MULTILINE)
ALONE = 'mount --make-rprivate / && mount -t tmpfs tmpfs /run && exec "$@"'


@pytest.mark.slow
@pytest.mark.root
def test_demo() -> None:
    """It comes to its end, divides the time as it says, and nothing is left of it."""
    command = ["unshare", "--mount", "sh", "-c", ALONE, "sh", "make", "demo"]
    # As typed by a person: below another make it also says which directory it leaves.
    environment = {name: text for name, text in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shares = {name: int(percent) for name, percent in SHARE.findall(done.stdout)}
    # On a machine that has more to do, enabling and disabling channels takes some of the time.
    assert shares["heavy"] / shares["light"] == pytest.approx(2, rel=0.25)
    assert 60 <= sum(shares.values()) <= 101
    assert "no container directory is left; 15109 MiB of the card are free" in done.stdout
    assert done.stdout.splitlines()[-1] == "Done."
