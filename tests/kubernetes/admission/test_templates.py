# SPDX-License-Identifier: Apache-2.0
"""Templates on an API server that keeps the amounts of claims, and on one that drops them."""

from __future__ import annotations

from typing import cast

import httpx2
import pytest
from lightkube import Client
from lightkube.resources.resource_v1 import ResourceClaimTemplate

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission.shape import Shape, template
from cgpu.kubernetes.admission.templates import Templates

SPECS = (template(Shape(1024), ()), template(Shape(None, percent=50), (15360, 23552)))


class FakeClient:
    """The API server, with the feature gate DRAConsumableCapacity or without it."""

    def __init__(self, *, keeps_amounts: bool) -> None:
        self.keeps_amounts = keeps_amounts
        self.made: list[str] = []
        self.tried = 0

    def create(self, wanted: ResourceClaimTemplate, *, dry_run: bool = False) -> ResourceClaimTemplate:
        kept = wanted.to_dict()
        for request in kept["spec"]["spec"]["devices"]["requests"]:
            for option in [request.get("exactly"), *request.get("firstAvailable", ())]:
                if option is not None and not self.keeps_amounts:
                    del option["capacity"]
        self.tried += dry_run
        if not dry_run:
            self.made.append(kept["metadata"]["name"])
        return cast("ResourceClaimTemplate", ResourceClaimTemplate.from_dict(kept))


def templates(client: FakeClient) -> Templates:
    return Templates(cast("Client", client), httpx2.Client())


@pytest.mark.parametrize("spec", SPECS)
def test_a_cluster_that_cannot_share(spec: dict[str, object]) -> None:
    """Without the feature gate one line refuses the pod and names it; no template of a whole GPU is left."""
    client = FakeClient(keeps_amounts=False)
    with pytest.raises(CgpuError, match=r"feature gate DRAConsumableCapacity is off .*in 1\.35 set it"):
        templates(client).ensure("team", "opencgpu-1", spec)
    assert client.made == []


@pytest.mark.parametrize("spec", SPECS)
def test_a_cluster_that_can_is_asked_once(spec: dict[str, object]) -> None:
    """One trial is enough: later templates cost one call."""
    client = FakeClient(keeps_amounts=True)
    found = templates(client)
    for name in ("opencgpu-1", "opencgpu-2"):
        found.ensure("team", name, spec)
    assert (client.made, client.tried) == (["opencgpu-1", "opencgpu-2"], 1)
