# SPDX-License-Identifier: Apache-2.0
"""Quotas of a namespace that count other systems' names: pods that have none of them would pass uncounted."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import ResourceQuota

from cgpu.errors import CgpuError, show

REQUESTS = "requests."


def refuse_uncounted(client: Client, namespace: str, dropped: AbstractSet[str]) -> None:
    """Raise CgpuError where a quota counts one of the names that a pod does not have any more."""
    try:
        quotas = list(client.list(ResourceQuota, namespace=namespace))
    except (ApiError, httpx2.HTTPError) as error:
        raise CgpuError(f"ResourceQuotas: no answer from the API server ({error})") from error
    for quota in quotas:
        for key in (quota.spec.hard if quota.spec is not None else None) or {}:
            name = key.removeprefix(REQUESTS)
            if name in dropped:
                what = show(quota.metadata.name if quota.metadata is not None else "")
                raise CgpuError(
                    f"ResourceQuota {what} counts {name}, which pods in slices do not have; expected a "
                    "quota of other names: docs/kubernetes.md, Limits"
                )
