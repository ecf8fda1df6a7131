# SPDX-License-Identifier: Apache-2.0
"""Specifications of containers, and their allocations on a node's cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cgpu.client.tree import Gpu
from cgpu.config.effective import Effective
from cgpu.request.names import NAMES
from cgpu.request.resolve import Allocation, resolve
from cgpu.request.spec import read

ENV = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15"}

# A good value of each thing that a container can say of a slice.
GOOD = {
    "mem": "6G",
    "container": "6",
    "dev": "15",
    "devices": "0",
    "weight": "2",
    "priority": "1",
    "disable": "1",
}


def every_word() -> Iterator[tuple[dict[str, str], dict[str, str], str]]:
    """Yield each variable and each annotation with a good value, and its name in messages."""
    for key, (variables, notes) in NAMES.items():
        for name in variables:
            yield {name: GOOD[key]}, {}, f"{name}={GOOD[key]}"
        for name in notes:
            yield {}, {name: GOOD[key]}, f"annotation {name}={GOOD[key]}"


def spec(
    env: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **members: object
) -> dict[str, object]:
    entries = ["PATH=/bin", *(f"{name}={value}" for name, value in (env or {}).items())]
    document: dict[str, object] = {"ociVersion": "1.0.2", "process": {"args": ["/x"], "env": entries}}
    if annotations is not None:
        document["annotations"] = annotations
    return {**document, **members}


def wants(document: Mapping[str, object], config: Effective) -> bool:
    """Return whether a container is to be sliced."""
    return read(document, config).amounts(config) is not None


def allocate(document: Mapping[str, object], gpus: Sequence[Gpu], config: Effective) -> Allocation | None:
    """Return what a container gets on these cards, None when it is not to be sliced."""
    request = read(document, config)
    amounts = request.amounts(config)
    return None if amounts is None else resolve(request, amounts, gpus, config)


def granted(document: Mapping[str, object], gpus: Sequence[Gpu], config: Effective) -> Allocation:
    found = allocate(document, gpus, config)
    assert found is not None
    return found
