# SPDX-License-Identifier: Apache-2.0
"""Mounts for a command, out of the engine's CDI description."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon import cdi
from cgpu.kmod.daemon.engine import DeviceNode
from cgpu.run.nodes import Bind, binds

if TYPE_CHECKING:
    from cgpu.runtime_config.oci_runtime.fields import Table


def test_simulated_cards() -> None:
    """Nodes that lie elsewhere are mounted under the names that programs look for."""
    edits = [cdi.edits(DeviceNode(f"/run/cgpu/sim/{name}", False, 0, 0)) for name in ("nvidiactl", "nvidia0")]
    assert binds(edits) == (
        Bind("/run/cgpu/sim/nvidiactl", "nvidiactl"),
        Bind("/run/cgpu/sim/nvidia0", "nvidia0"),
    )


def test_real_cards() -> None:
    """Real nodes are where they belong, so nothing is mounted; one of another place is."""
    there = cdi.edits(DeviceNode("/dev/nvidia0", True, 195, 0))
    elsewhere = cdi.edits(DeviceNode("/host/dev/nvidia1", True, 195, 1))
    assert binds([there, {}, {"mounts": []}]) == ()
    assert binds([there, elsewhere]) == (Bind("/host/dev/nvidia1", "nvidia1"),)


@pytest.mark.parametrize(
    "edit",
    [
        {"hooks": [{"hookName": "createContainer", "path": "/bin/true"}]},
        {"env": ["A=B"]},
        {"mounts": [{"hostPath": "/lib/libcuda.so", "containerPath": "/lib64/libcuda.so"}]},
        {"mounts": [{"hostPath": "/x", "containerPath": "/dev/../etc/passwd"}]},
        {"mounts": [{"hostPath": "/x", "containerPath": "/dev/.."}]},
        {"mounts": [{"hostPath": "x", "containerPath": "/dev/nvidia0"}]},
        {"mounts": [{"containerPath": "/dev/nvidia0"}]},
        {"mounts": [{"hostPath": "/x"}]},
    ],
)
def test_refused(edit: Table) -> None:
    """An edit that needs a container is refused, not left out."""
    with pytest.raises(CgpuError, match=r"^/run/cgpu/cdi\.json: .*: expected "):
        binds([edit])
