# SPDX-License-Identifier: Apache-2.0
"""The GPU request of one container, and the ResourceClaimTemplate for it.

Containers with equal requests share one template in their namespace: its name is a hash of the request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cgpu.kubernetes.names import DEVICE_CLASS, DRIVER, MEMORY, WEIGHT

PREFIX = "opencgpu-"
REQUEST = "gpu"
CLAIM = "gpu"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "opencgpu-admission"
MAX_SIZES = 8  # FirstAvailableDeviceRequestMaxSize of resource.k8s.io/v1


@dataclass(frozen=True, slots=True)
class Shape:
    """So much on each of `count` different GPUs: either MiB, or percent of the card's memory.

    weight: of GPU time; None: that of a claim that does not say. selectors: expressions (CEL) that hold for
    the cards; preferred: one that holds for those which are taken first.
    """

    mib: int | None
    percent: int | None = None
    count: int = 1
    weight: int | None = None
    selectors: tuple[str, ...] = ()
    preferred: str = ""


def template(shape: Shape, sizes: Sequence[int]) -> dict[str, Any]:
    """Return the spec of a template.

    sizes: the MiB of all kinds of card, of each of which a percentage is something else; the scheduler tries
    the first one first.
    """
    return {"spec": {"devices": {"requests": [{"name": REQUEST, **_request(shape, sizes)}]}}}


def name_of(spec: dict[str, Any]) -> str:
    """Return the name of a template."""
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
    return PREFIX + digest[:16]


def _request(shape: Shape, sizes: Sequence[int]) -> dict[str, Any]:
    # A claim has no percentages: each kind of card has an alternative, of which the scheduler takes one.
    if shape.mib is not None:
        found = [{"name": "any", **_device(shape, shape.mib)}]
    else:
        assert shape.percent is not None
        found = [
            {"name": f"of-{size}mi", **_device(shape, size * shape.percent // 100, _of_size(size))}
            for size in sizes[:MAX_SIZES]
        ]
    # Several GPUs of one request are different ones anyway.
    if shape.preferred and shape.count == 1 and 2 * len(found) <= MAX_SIZES:
        first = {"cel": {"expression": shape.preferred}}
        preferred = [
            {**one, "name": f"first-{one['name']}", "selectors": [*one.get("selectors", ()), first]}
            for one in found
        ]
        return {"firstAvailable": [*preferred, *found]}
    if shape.mib is not None:
        return {"exactly": _device(shape, shape.mib)}
    return {"firstAvailable": found}


def _device(shape: Shape, mib: int, *more: str) -> dict[str, Any]:
    wanted = {MEMORY: f"{mib}Mi"}
    if shape.weight is not None:
        wanted[WEIGHT] = str(shape.weight)
    selectors = [{"cel": {"expression": one}} for one in (*more, *shape.selectors)]
    return {
        "deviceClassName": DEVICE_CLASS,
        **({"selectors": selectors} if selectors else {}),
        "count": shape.count,
        "capacity": {"requests": wanted},
    }


def _of_size(mib: int) -> str:
    return f'device.capacity["{DRIVER}"].{MEMORY}.compareTo(quantity("{mib}Mi")) == 0'
