# SPDX-License-Identifier: Apache-2.0
"""A container in a user namespace, as docker's userns-remap and podman's --userns make it, has its slice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.conftest import Start
from tests.integration.probe import step
from tests.integration.runtimes import Runc, crun_here
from tests.integration.test_slice import LIMIT, SLICE

REMAPPED = [{"containerID": 0, "hostID": 100000, "size": 65536}]


@pytest.mark.parametrize("below", ["runc", "crun"])
def test_a_slice_in_a_user_namespace(start: Start, runc: Runc, tmp_path: Path, below: str) -> None:
    """Root of the container is nobody on the host; it gets its slice, and no more."""
    start("T4", **({"low_level_runtime": str(crun_here(tmp_path))} if below == "crun" else {}))
    spec = runc.spec(["/cgpu-probe", "info", "fill=1M:64k"], SLICE)
    linux = spec["linux"]
    assert isinstance(linux, dict)
    linux["namespaces"].append({"type": "user"})
    linux["uidMappings"] = linux["gidMappings"] = REMAPPED
    # pytest's folders are for root alone, and that of a worker lies one deeper.
    for folder in (runc.rootfs, *runc.rootfs.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    outcome = runc.run_bundle(runc.bundle(spec), f"remapped{os.getpid()}")
    assert outcome.returncode == 0, outcome.text
    assert step(outcome, "info").number("total") == LIMIT
    assert step(outcome, "fill").number("bytes") <= LIMIT
