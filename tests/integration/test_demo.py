# SPDX-License-Identifier: Apache-2.0
"""`make demo`, as README says it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.images import ROOT

SHARE = re.compile(r"^  (light|heavy): weight [12], (\d+) % of the GPU time$", re.MULTILINE)
ALONE = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && "


WITHOUT_IMPORT = """\
#!/bin/sh
case " $* " in *" import "*) echo "no import today" >&2; exit 1 ;; esac
exec {docker} "$@"
"""
# Remains of the demo where it ran: dockerd's own mount, and processes that its folder names.
LEFT = (
    '"$@"; code=$?; grep cgpu-demo- /proc/mounts && exit 97; '
    'pgrep -f " .*[/]cgpu-demo-" && exit 98; exit $code'
)


def demo(shell: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the demo with a /run of its own, below a shell's words and with a path to find programs by."""
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", f"{ALONE}{shell}", "sh"]
    # As typed by a person: below another make it also says which directory it leaves.
    environment = {name: text for name, text in os.environ.items() if "MAKE" not in name}
    return subprocess.run(
        [*command, "make", "demo"], cwd=ROOT, env={**environment, **({"PATH": path} if path else {})},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.root
def test_failure(tmp_path: Path) -> None:
    """A demo that fails says why, and leaves no daemon and no mount."""
    script = tmp_path / "docker"
    script.write_text(WITHOUT_IMPORT.format(docker=shutil.which("docker")))
    script.chmod(0o755)
    done = demo(LEFT, f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 2, done.stdout + done.stderr  # make's own
    assert "no import today" in done.stderr
    assert "demo: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.root
def test_demo() -> None:
    """The demo comes to its end, divides the time as it says, and leaves nothing."""
    done = demo('exec "$@"')
    assert done.returncode == 0, done.stdout + done.stderr
    shares = {name: int(percent) for name, percent in SHARE.findall(done.stdout)}
    # As near as the demo itself wants them: other programs of the machine take some of the time.
    assert shares["light"] == pytest.approx(33, abs=10)
    assert 99 <= sum(shares.values()) <= 101
    assert "no container directory is left; 15109 MiB of the card are free" in done.stdout
    assert done.stdout.splitlines()[-1] == "Done."
