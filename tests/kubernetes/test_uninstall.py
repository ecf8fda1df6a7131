# SPDX-License-Identifier: Apache-2.0
"""First step of `helm uninstall`, without a cluster."""

from __future__ import annotations

from typing import cast

import pytest
from lightkube import Client
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu.errors import CgpuError
from cgpu.kubernetes.uninstall import check_unused


class Claims:
    """A client that lists claims. drivers: by claim, whose devices it has; None: no allocation."""

    def __init__(self, drivers: dict[str, str | None]) -> None:
        self._drivers = drivers

    def list(self, kind: type[ResourceClaim], namespace: str, chunk_size: int) -> list[ResourceClaim]:
        assert namespace == "*"
        return [self._claim(name, driver) for name, driver in self._drivers.items()]

    def _claim(self, name: str, driver: str | None) -> ResourceClaim:
        results = [{"driver": driver, "pool": "node", "device": "d", "request": "r"}]
        status = {"allocation": {"devices": {"results": results}}} if driver else {}
        document = {"metadata": {"name": name, "namespace": "team"}, "spec": {}, "status": status}
        return cast("ResourceClaim", ResourceClaim.from_dict(document))


def client(drivers: dict[str, str | None]) -> Client:
    return cast("Client", Claims(drivers))


def test_claims_are_named() -> None:
    """The line names the first claims, says how many there are, and which command shows them.

    A claim that waits, or has devices of another driver, is no reason to refuse.
    """
    check_unused(client({"waits": None, "other": "gpu.nvidia.com"}))
    with pytest.raises(CgpuError, match=r"^5 claims have parts of GPUs: team/0, team/1, team/2 and 2 more; "):
        check_unused(client({str(number): "gpu.opencgpu.io" for number in range(5)}))
