# SPDX-License-Identifier: Apache-2.0
"""What cgpu-smi --publish lets users see of a program that runs under their number in a slice of cgpud."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cgpu import paths
from tests.integration.commands import eventually
from tests.integration.conftest import Start
from tests.integration.engine import CGPU, MIB, SMI

ALICE = 41001
FOLDER = Path(paths.PUBLISHED)
AS_ALICE = ("setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups")


@contextmanager
def ended(*words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


def sizes(name: str) -> list[int] | None:
    """Return the slices in a published file; None where there is none."""
    try:
        document = json.loads((FOLDER / name).read_text())
    except FileNotFoundError:
        return None
    return [one["allocated"] for gpu in document["gpus"] for one in gpu["containers"]]


def test_own_slices(start: Start) -> None:
    """With `own` the user's file has the user's slice and no other; both files go with their reason."""
    start("T4", show_slices="own")
    mine = f"{ALICE}.json"
    with ended(SMI, "--publish") as publisher, ended(CGPU, "run", "--mem", "2G", "--", "cat"):
        eventually(lambda: sizes("everyone.json") == [], "the cards are published")
        with ended(CGPU, "run", "--mem", "1G", "--", *AS_ALICE, "cat"):
            eventually(lambda: sizes(mine) == [1024 * MIB], "the user's slice is published")
            status = (FOLDER / mine).stat()
            assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o640)
            assert sizes("everyone.json") == []
        eventually(lambda: sizes(mine) is None, "the user's file has gone with the program")
        publisher.terminate()
        assert publisher.wait(timeout=240) == 0
        assert list(FOLDER.iterdir()) == []
