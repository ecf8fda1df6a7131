# SPDX-License-Identifier: Apache-2.0
"""Devices of this driver in a claim's allocation."""

from __future__ import annotations

from collections.abc import Sequence

from lightkube.models.resource_v1 import DeviceRequestAllocationResult
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu.kubernetes.names import DRIVER


def results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult] | None:
    """Return it, None where the claim has no allocation of devices."""
    allocation = claim.status.allocation if claim.status is not None else None
    devices = allocation.devices if allocation is not None else None
    if devices is None:
        return None
    return [one for one in devices.results or () if one.driver == DRIVER]
