# SPDX-License-Identifier: Apache-2.0
"""A container in a user namespace, as docker's userns-remap and podman's --userns make it, has its slice."""

from __future__ import annotations

import os

from tests.integration.engine import Engine
from tests.integration.probe import step
from tests.integration.runtimes import Runc
from tests.integration.test_slice import LIMIT, SLICE

REMAPPED = [{"containerID": 0, "hostID": 100000, "size": 65536}]


def test_a_slice_in_a_user_namespace(engine: Engine, runc: Runc) -> None:
    """Root of the container is nobody on the host; it gets its slice, and no more."""
    spec = runc.spec(["/cgpu-probe", "info"], SLICE)
    linux = spec["linux"]
    assert isinstance(linux, dict)
    linux["namespaces"].append({"type": "user"})
    linux["uidMappings"] = linux["gidMappings"] = REMAPPED
    for folder in (runc.rootfs, *runc.rootfs.parents):
        if folder.is_relative_to("/tmp/"):
            folder.chmod(0o755)
    outcome = runc.run_bundle(runc.bundle(spec), f"remapped{os.getpid()}")
    assert outcome.returncode == 0, outcome.text
    assert step(outcome, "info").number("total") == LIMIT
