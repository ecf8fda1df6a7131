# SPDX-License-Identifier: Apache-2.0
"""Which containers of a pod may use a share."""

from __future__ import annotations

from cgpu.kubernetes.node.consumers import containers
from tests.kubernetes.node.objects import pod

ALL = {"name": "gpu"}
FIRST = {"name": "gpu", "request": "r0"}


def test_containers_by_request() -> None:
    """A reference without a request is one to all of them; init containers count; others have nothing."""
    found = containers(pod({"main": [ALL], "init": [FIRST], "other": []}), "part", ["r0", "r1/small"])
    assert found == {"r0": ("init", "main"), "r1/small": ("main",)}


def test_claim_of_a_template() -> None:
    """Which claim was made of a template says the pod's status."""
    assert containers(pod({"main": [ALL]}, resourceClaimTemplateName="x"), "part", ["r0"]) == {
        "r0": ("main",)
    }
    assert containers(pod({"main": [ALL]}, resourceClaimName="else"), "part", ["r0"]) == {"r0": ()}
